// Package lint holds the house rules of this repository as tests: which room may import which, which calls are
// forbidden in a library, what every exported name needs. Each rule says what to do when it fails, and each is
// itself tested on a snippet that breaks it. There is no code to import here.
package lint
