// Package postgres stores tables in a PostgreSQL database.
package postgres
