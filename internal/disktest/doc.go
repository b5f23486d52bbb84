// Package disktest has the disks of tests, which are folders of the real file system, and how these get damaged.
package disktest
