//go:build !race

package catalog_test

const faultStep = 1
