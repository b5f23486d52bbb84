package clickhouse

// Server is the server of the tests, for the tests of package clickhouse_test.
var Server = &server
