package natsserver

import "github.com/nats-io/nats-server/v2/server"

// ClientURL returns where a server listens for clients.
func ClientURL(s *Server) string { return s.nats.ClientURL() }

// Others returns how many other servers a server is connected to.
func Others(s *Server) int { return s.nats.NumRemotes() }

// Stored returns how many messages a server has of all streams.
func Stored(s *Server) (messages uint64, err error) {
	info, err := s.nats.Jsz(&server.JSzOptions{})
	if err != nil {
		return 0, err
	}
	return info.Messages, nil
}
