package natsserver

// ClientURL returns where a server listens for clients.
func ClientURL(s *Server) string { return s.nats.ClientURL() }

// Others returns how many other servers a server is connected to.
func Others(s *Server) int { return s.nats.NumRemotes() }
