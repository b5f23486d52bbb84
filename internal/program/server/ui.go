package server

import (
	"cmp"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/forebay/forebay/console"
)

// consolePath is where the console is on the address of the API.
const consolePath = "/console/"

// historyFile has the points of the console's plots. It is in the data directory.
const historyFile = "console-history.json"

// leastToken is the length that the console asks of a token.
const leastToken = 16

// withConsole serves the console in addition to the API, to clients with the API's token. The caller closes the console before the
// server stops, because open streams would delay the stop.
func (m *management) withConsole(api http.Handler, apiURL string) (http.Handler, *console.Console, error) {
	token, err := m.token()
	if err != nil {
		return nil, nil, err
	}
	base := cmp.Or(m.cfg.APIURL, apiURL)
	opts := console.Options{
		Tokens:  []console.Token{{Name: "token of the API", Secret: token, Rights: console.AllRights}},
		Catalog: m.cat, Nodes: m.nodes, Logger: m.logger, HistoryFile: filepath.Join(m.cfg.Dir, historyFile),
	}
	opts.Hosts = hostsOf(base)
	c, err := console.New(m.eng, opts)
	if err != nil {
		return nil, nil, err
	}
	m.consoleURL = strings.TrimSuffix(base, "/") + consolePath
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, consolePath) || r.URL.Path+"/" == consolePath {
			c.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	}), c, nil
}

// hostsOf returns the host of a URL. It returns none for an IPv6 address.
func hostsOf(address string) []string {
	if u, err := url.Parse(address); err == nil && u.Hostname() != "" && !strings.Contains(u.Hostname(), ":") {
		return []string{u.Hostname()}
	}
	return nil
}
