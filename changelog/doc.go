// Package changelog keeps a second copy of what the local level of an engine stores, in a replicated log, so that no
// acknowledged row is lost with a machine.
package changelog
