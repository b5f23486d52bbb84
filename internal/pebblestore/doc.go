// Package pebblestore opens the pebble databases of packages buffer, catalog and platform, and keeps them from harming
// their host as a database made for a dedicated process would, by ending the process when the disk fails, filling a small
// disk with files for later, and staying shut when a file that it does not need is damaged.
//
//   - [Open] checks that the room suffices, looks for damage, opens the database on an [FS] and returns an [Opening].
//   - An [Opening] knows how much room there is, gives back the room it does not need, and copies itself.
//   - A [Store] is a sequence of openings. After a failure of the disk it opens the database again. [Phase] has its life cycle.
package pebblestore
