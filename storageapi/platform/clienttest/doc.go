// Package clienttest has the tests of the clients in packages storageapi/drivers and stream/platformauth against the server of package platform.
// They are here because the module of these clients does not require the server.
package clienttest
