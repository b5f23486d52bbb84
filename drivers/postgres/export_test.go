package postgres

// Server is the server of the tests, for the tests of package postgres_test.
var Server = &server
