// Package browsertest has no code: its tests drive the page of package console in a browser. It is a module of its own, so that nobody who
// uses the console downloads the driver of the browser.
package browsertest
