// Package linearizability checks that changes of definitions through several nodes at once look like changes that were made one after the other.
package linearizability
