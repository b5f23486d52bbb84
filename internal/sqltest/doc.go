// Package sqltest reads tables of the directory target with DuckDB. It is a module of its own, so that the others do not depend on
// DuckDB.
package sqltest
