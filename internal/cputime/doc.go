// Package cputime says how much processor time a process has used, for the programs that measure.
package cputime
