// Package browsertest has no code. Its tests drive the page of package console in a browser. It is a separate module, so that users of the
// console do not download the driver of the browser.
package browsertest
