package pgtest

import "errors"

// Hang is for systems with signals.
func (s *Server) Hang() (restore func() error, err error) {
	return nil, errors.New("pgtest: processes cannot be stopped on Windows")
}
