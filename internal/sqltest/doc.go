// Package sqltest reads tables of the drivers that write files with DuckDB. It is a module of its own, so that the others do not
// depend on DuckDB.
package sqltest
