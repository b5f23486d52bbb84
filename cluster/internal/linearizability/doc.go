// Package linearizability checks that changes of definitions through several nodes look as if they were made one after the other, in memory
// here, and on real servers in the tests of package cluster.
package linearizability
