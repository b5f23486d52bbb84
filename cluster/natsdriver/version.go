package natsdriver

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/nats-io/nats.go"
)

// The oldest servers that are known to keep acknowledged messages have version 2.15. See docs/cluster-failures.md.
const (
	oldestMajor = 2
	oldestMinor = 15
)

var versionNumber = regexp.MustCompile(`^v?([0-9]{1,6})\.([0-9]{1,6})(?:[.+-]|$)`)

// checkVersion refuses a connection to a server that is too old. It is refused rather than reported, because rows would be acknowledged that
// such a server loses. While there is no connection, or if the version has another form, nothing is known.
func checkVersion(conn *nats.Conn) error { return checkVersionOf(conn.ConnectedServerVersion()) }

func checkVersionOf(version string) error {
	m := versionNumber.FindStringSubmatch(version)
	if m == nil {
		return nil
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	if major < oldestMajor || major == oldestMajor && minor < oldestMinor {
		return fmt.Errorf("natsdriver: the server has the version %s, want %d.%d or later: upgrade the servers first", version, oldestMajor, oldestMinor)
	}
	return nil
}
