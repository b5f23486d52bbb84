package postgres

// Server is the server of the tests, for those of package postgres_test.
var Server = &server
