// Package journal is the store that the catalogs of a cluster share: a replicated log of their commits. Each node reads the whole log and
// follows it. Decision 13 says why (docs/internals/decisions/13-shared-definitions.md).
package journal
