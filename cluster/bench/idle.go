package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// size is the number of servers and of nodes where a scenario does not choose it.
const size = 3

// freeAddresses returns addresses at which no process listens now, on ports below the range that systems use for outgoing connections.
func freeAddresses(n int) (list []string, err error) {
	for attempts := 0; len(list) < n; attempts++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000)))
		if err != nil {
			if attempts == 100 {
				return nil, err
			}
			continue
		}
		defer l.Close()
		list = append(list, l.Addr().String())
	}
	return list, nil
}

// startServers starts n servers in separate processes, and returns the URL for nodes.
func startServers(ctx context.Context, n int, dir string) (all processes, natsURL string, err error) {
	list, err := freeAddresses(2 * n)
	if err != nil {
		return nil, "", err
	}
	peers, clients := list[:n], list[n:]
	configs := make([]jobConfig, n)
	for i := range configs {
		configs[i] = jobConfig{Kind: kindServer, Name: fmt.Sprintf("server-%d", i), Dir: dir, Listen: peers[i], Peers: peers, Client: clients[i]}
	}
	all, err = startAll(ctx, configs...)
	return all, "nats://" + strings.Join(clients, ",nats://"), err
}

// nodes returns the configurations of n nodes, with their servers inside, or connected to a URL.
func nodes(n int, dir, natsURL string) (configs []jobConfig, err error) {
	var peers []string
	if natsURL == "" {
		if peers, err = freeAddresses(n); err != nil {
			return nil, err
		}
	}
	for i := range n {
		c := jobConfig{Kind: kindNode, Name: string(rune('a' + i)), Dir: dir, URL: natsURL}
		if natsURL == "" {
			c.Listen, c.Peers = peers[i], peers
		}
		configs = append(configs, c)
	}
	return configs, nil
}

// idle measures nodes that have definitions and nothing else to do, and an engine without a log with the same definitions.
func (b *bench) idle(ctx context.Context, dir string, inside bool, sinks int) (figures map[string]float64, err error) {
	groups := map[string]processes{}
	defer func() {
		for _, all := range groups {
			all.kill()
		}
	}()
	natsURL, alone := "", map[string]float64{}
	if !inside {
		if groups["server"], natsURL, err = startServers(ctx, size, dir); err != nil {
			return nil, err
		}
		// Servers without clients. Their cost is not the nodes'.
		if alone, err = b.quiet(ctx, groups); err != nil {
			return nil, err
		}
	}
	configs, err := nodes(size, dir, natsURL)
	if err != nil {
		return nil, err
	}
	if groups["node"], err = startAll(ctx, configs...); err != nil {
		return nil, err
	}
	if groups["engine"], err = startAll(ctx, jobConfig{Kind: kindEngine, Name: "alone", Dir: filepath.Join(dir, "alone")}); err != nil {
		return nil, err
	}
	for _, group := range []string{"node", "engine"} {
		if err := groups[group][0].ask(ctx, question{Do: "define", Number: int64(sinks)}, nil); err != nil {
			return nil, err
		}
	}
	if _, err := ask[any](ctx, groups["node"], func(int) question { return question{Do: "knows"} }); err != nil {
		return nil, err
	}
	if figures, err = b.quiet(ctx, groups); err != nil {
		return nil, err
	}
	if v, ok := alone["server_cpu_percent"]; ok {
		figures["server_alone_cpu_percent"], figures["server_alone_rss_mb"] = v, alone["server_rss_mb"]
	}
	if b.profiles == "" {
		return figures, nil
	}
	return figures, b.profile(ctx, groups, fmt.Sprintf("idle-%d", sinks))
}

// quiet returns what processes use for a while in which nothing is asked of them, as the mean of each group.
func (b *bench) quiet(ctx context.Context, groups map[string]processes) (map[string]float64, error) {
	if err := sleep(ctx, b.settle); err != nil {
		return nil, err
	}
	usages := func() (map[string][]usage, error) {
		all := map[string][]usage{}
		for name, group := range groups {
			var err error
			if all[name], err = ask[usage](ctx, group, func(int) question { return question{Do: "usage"} }); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	before, err := usages()
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := sleep(ctx, b.duration); err != nil {
		return nil, err
	}
	elapsed := time.Since(begin)
	after, err := usages()
	if err != nil {
		return nil, err
	}
	figures := map[string]float64{}
	for name, group := range after {
		for i, u := range group {
			figures[name+"_cpu_percent"] += 100 * (u.CPU - before[name][i].CPU).Seconds() / elapsed.Seconds() / float64(len(group))
			figures[name+"_rss_mb"] += float64(u.Resident) / 1e6 / float64(len(group))
			figures[name+"_heap_mb"] += float64(u.Heap) / 1e6 / float64(len(group))
			figures[name+"_goroutines"] += float64(u.Goroutines) / float64(len(group))
		}
	}
	return figures, nil
}

// profile lets each process profile itself for as long again.
func (b *bench) profile(ctx context.Context, groups map[string]processes, name string) error {
	if err := os.MkdirAll(b.profiles, 0o755); err != nil {
		return err
	}
	each := func(do string) error {
		for kind, group := range groups {
			if _, err := ask[any](ctx, group, func(i int) question {
				return question{Do: do, Path: filepath.Join(b.profiles, fmt.Sprintf("%s-%s-%d.pprof", name, kind, i))}
			}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := each("profile"); err != nil {
		return err
	}
	if err := sleep(ctx, b.duration); err != nil {
		return err
	}
	return each("profiled")
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
