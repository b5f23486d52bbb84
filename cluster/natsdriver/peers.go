package natsdriver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// Peers carries requests from one node to all nodes, and their responses back, on the subject fb.<cluster>.peers. Nothing of it is stored.
// Whoever has the servers' account can send requests, as it can write logs. It is safe for concurrent use.
type Peers struct {
	conn    *nats.Conn
	subject string
}

// NewPeers returns the nodes on the servers of a connection. It sends nothing. The caller closes the connection.
func NewPeers(conn *nats.Conn, o Options) (*Peers, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &Peers{conn, "fb." + o.withDefaults().Cluster + ".peers"}, nil
}

const (
	// responsesAtOnce bounds the requests that a node works on. Further requests get no response.
	responsesAtOnce = 64
	// maxResponse bounds the memory that one response of a node takes.
	maxResponse = 64 << 20
	// responsePart is the most that one message of a response carries.
	responsePart = 512 << 10

	headerResponse = "Fb-Answer" // the same in all parts of a response
	headerPart     = "Fb-Part"   // "1/3"
)

// Serve responds to the requests of all nodes, including this one, with the result of respond. If the result is nil, it sends no response. It serves
// until the caller calls stop. It calls respond for several requests at once. stop ends their contexts and waits for the calls.
func (p *Peers) Serve(respond func(ctx context.Context, request []byte) []byte) (stop func(), err error) {
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	var calls sync.WaitGroup
	slots := make(chan struct{}, responsesAtOnce)
	sub, err := p.conn.Subscribe(p.subject, func(m *nats.Msg) {
		mu.Lock() // so that no call begins after stop
		defer mu.Unlock()
		if ctx.Err() != nil || m.Reply == "" {
			return
		}
		select {
		case slots <- struct{}{}:
		default:
			return
		}
		calls.Go(func() {
			defer func() { <-slots }()
			if data := respond(ctx, m.Data); data != nil {
				p.respond(m, data)
			}
		})
	})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("natsdriver: subscribe to %s: %w", p.subject, err)
	}
	return func() {
		_ = sub.Unsubscribe() // it fails if the connection has ended
		mu.Lock()
		cancel()
		mu.Unlock()
		calls.Wait()
	}, nil
}

// respond sends a response in parts. If a part does not arrive, the requesting node detects it.
func (p *Peers) respond(m *nats.Msg, data []byte) {
	size := int(min(responsePart, max(1, p.conn.MaxPayload()-maxHeaders)))
	parts, id := max(1, (len(data)+size-1)/size), rand.Text()
	for part := 1; part <= parts; part++ {
		n := min(len(data), size)
		one := &nats.Msg{Header: nats.Header{}, Data: data[:n]}
		one.Header.Set(headerResponse, id)
		one.Header.Set(headerPart, strconv.Itoa(part)+"/"+strconv.Itoa(parts))
		data = data[n:]
		if m.RespondMsg(one) != nil {
			return
		}
	}
}

// Ask sends a request to all nodes and yields the responses as they arrive, until ctx ends. It yields an error and ends if the servers refuse the
// request, or if no node serves.
func (p *Peers) Ask(ctx context.Context, request []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if err := p.ask(ctx, request, func(response []byte) bool { return yield(response, nil) }); err != nil {
			yield(nil, fmt.Errorf("natsdriver: ask the other nodes: %w", err))
		}
	}
}

// ask returns nil if ctx has ended or yield has had enough.
func (p *Peers) ask(ctx context.Context, request []byte, yield func([]byte) bool) error {
	inbox := p.conn.NewInbox() // NewRespInbox is below the subject where the connection gets the responses to its requests, so all would arrive twice
	sub, err := p.conn.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := p.conn.PublishRequest(p.subject, inbox, request); err != nil {
		return err
	}
	begun := map[string]*partialResponse{}
	for {
		m, err := sub.NextMsgWithContext(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case len(m.Data) == 0 && m.Header.Get("Status") == "503":
			return nats.ErrNoResponders
		}
		id := m.Header.Get(headerResponse)
		if begun[id] == nil {
			begun[id] = &partialResponse{}
		}
		response, complete, err := begun[id].add(m)
		if err != nil || complete {
			delete(begun, id)
		}
		if complete && !yield(response) {
			return nil
		}
	}
}

// partialResponse holds the parts of a response that have arrived. One connection sends them, so they arrive in order.
type partialResponse struct {
	parts int
	data  []byte
}

var errPart = errors.New("it is no part of a response")

// add takes the next part. With an error nothing of the response can be used.
func (a *partialResponse) add(m *nats.Msg) (response []byte, complete bool, err error) {
	one, all, _ := strings.Cut(m.Header.Get(headerPart), "/")
	part, err := strconv.Atoi(one)
	if err != nil {
		return nil, false, errPart
	}
	parts, err := strconv.Atoi(all)
	if err != nil || part != a.parts+1 || part > parts || len(a.data)+len(m.Data) > maxResponse {
		return nil, false, errPart
	}
	a.parts, a.data = part, append(a.data, m.Data...)
	return a.data, part == parts, nil
}
