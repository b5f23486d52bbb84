package main

import (
	"log/slog"
	"net"
)

// notify tells the service manager the state of this process, if the manager wants to know, as systemd does for units of Type=notify. The
// protocol is sd_notify(3), one datagram with lines NAME=VALUE.
func (p process) notify(state string, logger *slog.Logger) {
	socket, _ := p.getenv("NOTIFY_SOCKET")
	if socket == "" {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err == nil {
		_, err = conn.Write([]byte(state))
		conn.Close()
	}
	if err != nil {
		logger.Warn("service manager not notified", "socket", socket, "state", state, "cause", err, "next", "check NOTIFY_SOCKET of the service")
	}
}
