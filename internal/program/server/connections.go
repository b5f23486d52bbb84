package server

import "log/slog"

const (
	// ownHandles are the file handles that stay for the store, the tables and the API.
	ownHandles = 2048
	// apiConnections is how many connections the API has at most.
	apiConnections = 512
)

// eventConnections is how many connections senders of events may have. It is as many as the flag says, and not so many that the
// store has no file handles left.
func eventConnections(wanted int, handles uint64, logger *slog.Logger) int {
	most := max(int(handles/2), int(handles)-ownHandles)
	if handles == 0 || wanted <= most {
		return wanted
	}
	logger.Warn("fewer connections than -max-connections",
		"connections", most, "wanted", wanted, "open_files", handles, "next", "raise the limit of open files (ulimit -n)")
	return most
}
