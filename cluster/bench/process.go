package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/forebay/forebay/internal/proctest"
)

// jobEnv is the variable that makes a process a node, a server or an engine. It has a jobConfig as JSON.
const jobEnv = "FOREBAY_CLUSTER_BENCH"

// process is another process of this program, which handles one request after the other. One goroutine uses it.
type process struct {
	*proctest.Process
	name string
}

// question is one line to the process, and the response is one line of JSON.
type question struct {
	// Do is the name of a job's method.
	Do string `json:"do"`
	// Number and Path are its arguments.
	Number int64  `json:"number,omitempty"`
	Path   string `json:"path,omitempty"`
}

// response is the error or the result of a question.
type response struct {
	Error  string          `json:"error,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// startProcess starts a process. Its first response, which await reads, says that it works.
func startProcess(cfg jobConfig) (*process, error) {
	p, err := proctest.Begin(proctest.Self(jobEnv + "=" + proctest.JSON(cfg)))
	return &process{p, cfg.Kind + " " + cfg.Name}, err
}

// await reads a response into result, if that is not nil. A context that ends kills the process.
func (p *process) await(ctx context.Context, result any) error {
	line, err := p.Next(ctx)
	if err != nil {
		p.Kill()
		return fmt.Errorf("%s: %w", p.name, err)
	}
	var a response
	if err := json.Unmarshal([]byte(line), &a); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	if a.Error != "" {
		return fmt.Errorf("%s: %s", p.name, a.Error)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(a.Result, result)
}

// ask sends a question and awaits its response.
func (p *process) ask(ctx context.Context, q question, result any) error {
	line, err := json.Marshal(q)
	if err != nil {
		return err
	}
	if _, err := p.In.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return p.await(ctx, result)
}

// processes are started and killed together.
type processes []*process

func (all processes) kill() {
	for _, p := range all {
		p.Kill()
	}
}

// startAll starts processes, which may need each other, and awaits that all of them work.
func startAll(ctx context.Context, configs ...jobConfig) (all processes, err error) {
	defer func() {
		if err != nil {
			all.kill()
		}
	}()
	for _, cfg := range configs {
		p, err := startProcess(cfg)
		if err != nil {
			return all, err
		}
		all = append(all, p)
	}
	for _, p := range all {
		if err := p.await(ctx, nil); err != nil {
			return all, err
		}
	}
	return all, nil
}

// ask asks all processes the same question and returns the response of each.
func ask[T any](ctx context.Context, all processes, q func(i int) question) ([]T, error) {
	results := make([]T, len(all))
	for i, p := range all {
		if err := p.ask(ctx, q(i), &results[i]); err != nil {
			return nil, err
		}
	}
	return results, nil
}
