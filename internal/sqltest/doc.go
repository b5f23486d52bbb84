// Package sqltest reads tables of the drivers that write files with DuckDB. It is a separate module, so that the other modules
// do not depend on DuckDB.
package sqltest
