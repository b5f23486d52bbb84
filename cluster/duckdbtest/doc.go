// Package duckdbtest tests a cluster whose nodes feed one DuckDB file. It is a separate module, so that the cluster does not depend on
// DuckDB, and the driver not on NATS.
package duckdbtest
