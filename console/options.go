package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/forebay/forebay/catalog"

	"github.com/forebay/forebay/driverkit/warnlog"
)

// Rights say what a user may do. Any right includes Numbers.
type Rights uint8

const (
	// Numbers are the names of sources and sinks, counters, ages and rates, and that a driver fails, without its words, which quote values.
	Numbers Rights = 1 << iota
	// Records are the contents of records and rows, and messages that quote them, such as errors of drivers, which may be personal data.
	Records
	// Changes are Flush, Retry, Discard and all other calls that change something.
	Changes

	// AllRights are all of these.
	AllRights = Numbers | Records | Changes
)

// Token gives rights to whoever knows it.
type Token struct {
	// Name stands for the user in logs and in the history of definitions. Default: "token".
	Name string
	// Secret has at least 16 bytes. A new one ends all sessions of the old one.
	Secret string
	// Rights that the token gives.
	Rights Rights
}

// Options of a [Console]. The zero value works. A client with [Console.Token] may do everything, and no other client sees anything.
type Options struct {
	// Name is shown next to the product's name, so that several consoles can be told apart. Version is shown in the footer.
	// Default: neither.
	Name, Version string
	// Tokens give rights. Default: if Authorize is nil too, a token that New draws.
	Tokens []Token
	// Public are the rights without a token. Only Numbers can be public. Default: none.
	Public Rights
	// Authorize returns the rights of a request by the embedding program's knowledge of it, and the name of the user for logs and for the
	// history of definitions. It adds to Tokens and Public, and must be safe for concurrent use. Default: none.
	Authorize func(r *http.Request) (rights Rights, user string)
	// Hosts are the names under which the console is reached, without a port. Loopback names and IP addresses need not be listed; "*" stands
	// for all names, for a console behind a proxy that checks them. Default: none.
	Hosts []string
	// TrustedOrigins are more origins whose pages may make changes, such as "https://ops.example.com". Default: none.
	TrustedOrigins []string
	// Nonce returns the nonce of the content security policy that the embedding program sends itself. The console then sends no policy
	// itself. Default: the console makes both.
	Nonce func(r *http.Request) string
	// MaxViewers bounds the open streams. Further viewers see the page refreshed every 10 s. Default: 32.
	MaxViewers int
	// History samples the engine every 10 s even without a viewer, so that the plots show the last hour to every new viewer. The samples
	// take a goroutine from New to Close. Default: samples are taken only while there is a viewer.
	History bool
	// HistoryFile keeps the points of the plots, up to a week at falling resolution, and marks of starts, changed definitions and trouble. It is written
	// once a minute and is 250 KB at most. A file that cannot be read is replaced. It sets History. Default: the plots end with the process.
	HistoryFile string
	// Catalog has the durable definitions, for the pages that show or change them. Its engine must be the console's engine. Default:
	// none, and such pages are missing.
	Catalog *catalog.Catalog
	// Nodes lists the nodes of the cluster for the page Health: Node.Nodes of the module cluster fits. A list returned with an error is shown with
	// it. It is asked at most every 2 s while there is a viewer, once for all viewers, with a context of 5 s. Default: no nodes are shown.
	Nodes func(ctx context.Context) ([]catalog.Node, error)
	// Logger gets a line for every change, and for failures. Default: warnings and errors go to [slog.Default]; [slog.DiscardHandler] silences them.
	Logger *slog.Logger
}

// leastSecret is the least length of a token. Shorter ones could be guessed.
const leastSecret = 16

// Validate reports all problems at once. Zero fields count as their defaults.
func (o Options) Validate() error {
	var problems []error
	for i, t := range o.Tokens {
		if len(t.Secret) < leastSecret {
			problems = append(problems, fmt.Errorf("Tokens[%d].Secret has %d bytes, at least %d are needed", i, len(t.Secret), leastSecret))
		}
		if t.Rights == 0 || t.Rights&^AllRights != 0 {
			problems = append(problems, fmt.Errorf("Tokens[%d].Rights is %d, which is not a set of Numbers, Records and Changes", i, t.Rights))
		}
	}
	if o.Public&^Numbers != 0 {
		problems = append(problems, errors.New("Options.Public has more than Numbers, which alone can be public"))
	}
	for i, h := range o.Hosts {
		if h == "" || strings.ContainsAny(h, ":/ ") {
			problems = append(problems, fmt.Errorf("Options.Hosts[%d] is %q, not the name of a host without a port", i, h))
		}
	}
	for i, origin := range o.TrustedOrigins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin {
			problems = append(problems, fmt.Errorf("TrustedOrigins[%d] is %q, not an origin such as https://ops.example.com", i, origin))
		}
	}
	if o.MaxViewers < 0 {
		problems = append(problems, fmt.Errorf("MaxViewers is %d, less than 0", o.MaxViewers))
	}
	return errors.Join(problems...)
}

func (o Options) withDefaults() Options {
	o.History = o.History || o.HistoryFile != ""
	o.MaxViewers = cmp.Or(o.MaxViewers, 32)
	o.Logger = warnlog.Or(o.Logger)
	return o
}
