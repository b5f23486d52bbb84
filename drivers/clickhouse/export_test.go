package clickhouse

// Server is the server of the tests, for those of package clickhouse_test.
var Server = &server
