// Package disktest has the disks of tests: folders of the real file system, and how these get damaged.
package disktest
