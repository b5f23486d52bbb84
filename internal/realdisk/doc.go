// Package realdisk has a test that no code of the local level and of the catalog runs on disks in memory alone.
//
// Once no salvage worked on a real file system. All its tests passed, because they played on disks in memory, which do not report
// their room.
package realdisk
