package natsserver

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
)

// Options are the options of [Start].
type Options struct {
	// Name is the identity of the server in its cluster. It is unique, the same after each start, and without spaces. Never reuse the name of
	// a server for a machine with another server's data. Required.
	Name string
	// Dir is the folder of the data, on a local disk and not shared with another server. Required.
	Dir string
	// Listen is the address, host:port, at which the other servers connect. Required.
	Listen string
	// Advertise is the address, host:port, at which the other servers reach this one if that is not Listen, as in a container, or with
	// translated addresses. Listen may have the host 0.0.0.0 then. Default: Listen.
	Advertise string
	// Peers are the addresses at which this server reaches all servers of the cluster, with its own Advertise among them: 3, 5 or 7. Required.
	Peers []string
	// Secret is the password of servers to each other, the same for all. Whoever has it can read and write everything.
	// Required.
	Secret string
	// TLS encrypts the connections between servers. It should demand certificates of both sides. If it is nil, they are in clear text.
	TLS *tls.Config
	// Cluster is the name of the cluster. Default: forebay.
	Cluster string
	// LazySync lets writes stay in the page cache for up to two minutes. By default a write is on the disk of a majority
	// before it is acknowledged. With LazySync, power cuts at two of three servers within that time lose acknowledged writes.
	LazySync bool
	// MaxStore bounds the disk that streams may reserve. See [Server.Reserved]. It must be less than the size of the disk. Default: 16 GiB.
	MaxStore int64
	// MaxMemory bounds the memory of streams and consumers that are kept there. Default: 256 MiB.
	MaxMemory int64
	// Logger gets the messages of the server. Default: warnings and errors go to [slog.Default]; [slog.DiscardHandler] silences them.
	Logger *slog.Logger
}

// Validate returns all errors of the options, joined.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("natsserver: "+format, args...)) }
	if o.Name == "" || strings.ContainsAny(o.Name, " \t\r\n") {
		fault("Name is %q, must be a word", o.Name)
	}
	if o.Dir == "" {
		fault("Dir is missing")
	}
	own := cmp.Or(o.Advertise, o.Listen)
	addresses := append([]string{o.Listen}, o.Peers...)
	if o.Advertise != "" {
		addresses = append(addresses, o.Advertise)
	}
	for _, address := range addresses {
		host, port, err := net.SplitHostPort(address)
		if n, _ := strconv.Atoi(port); err != nil || host == "" || n < 1 || n > 65535 {
			fault("%q must be host:port", withoutUser(address))
		}
	}
	if n := len(o.Peers); n != 3 && n != 5 && n != 7 {
		fault("Peers has %d addresses, must be 3, 5 or 7", n)
	}
	if !slices.Contains(o.Peers, own) {
		fault("Peers must contain Advertise, or Listen without it: %q", withoutUser(own))
	}
	if o.Secret == "" {
		fault("Secret is missing")
	}
	if o.MaxStore < 0 || o.MaxMemory < 0 {
		fault("MaxStore is %d and MaxMemory %d, must not be negative", o.MaxStore, o.MaxMemory)
	}
	return errors.Join(errs...)
}

// withoutUser hides the part before the host of an address, where a URL has a password.
func withoutUser(address string) string {
	if at := strings.LastIndexByte(address, '@'); at >= 0 {
		return "***" + address[at:]
	}
	return address
}

func (o Options) withDefaults() Options {
	if o.Cluster == "" {
		o.Cluster = "forebay"
	}
	if o.MaxStore == 0 {
		o.MaxStore = 16 << 30
	}
	if o.MaxMemory == 0 {
		o.MaxMemory = 256 << 20
	}
	return o
}
