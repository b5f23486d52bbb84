package natsserver

// ClientURL returns where a server listens for clients.
func ClientURL(s *Server) string { return s.nats.ClientURL() }
