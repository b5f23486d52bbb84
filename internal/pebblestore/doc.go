// Package pebblestore opens the pebble databases of packages buffer, catalog and platform, and keeps them from what a
// database that was made for a process of its own would do to its host: end the process when the disk fails, fill a small
// disk with files for later, and stay shut when a file that it does not need is damaged.
//
//   - [Open] checks that the room suffices, looks for damage, opens the database on an [FS] and returns an [Opening].
//   - An [Opening] knows how much room there is, gives back what it does not need, and copies itself.
//   - A [Store] is a sequence of openings: after a failure of the disk it opens the database again. [Phase] has its life cycle.
package pebblestore
