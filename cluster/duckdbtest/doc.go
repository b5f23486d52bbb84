// Package duckdbtest tests a cluster whose nodes feed one DuckDB file. It is a module of its own, so that the cluster does not depend on
// DuckDB, and the driver not on NATS.
package duckdbtest
