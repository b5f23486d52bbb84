package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"time"
)

const (
	// mutexFraction is the part of the waits for locks that the profile samples, one in so many.
	mutexFraction = 5
	// blockRate is from how long on a wait of any kind is in the profile. Shorter ones are sampled.
	blockRate = 10 * time.Microsecond
)

// profiled measures in this process and writes SCENARIO.cpu, .mutex and .block to the folder of profiles, for
// "go tool pprof". They end with the measured window, before the rows are counted. Profiles of locks and waits add up over the
// process, so choose one scenario with -run and one round.
func (s scenario) profiled(ctx context.Context, e *env) (_ *sample, err error) {
	file := func(kind string) (*os.File, error) {
		return os.Create(filepath.Join(e.profiles, strings.ReplaceAll(s.name, "/", "-")+"."+kind))
	}
	cpu, err := file("cpu")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cpu.Close()) }()
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, err
	}
	runtime.SetMutexProfileFraction(mutexFraction)
	runtime.SetBlockProfileRate(int(blockRate))
	e.ended = sync.OnceFunc(func() {
		runtime.SetMutexProfileFraction(0)
		runtime.SetBlockProfileRate(0)
		pprof.StopCPUProfile()
	})
	m, err := s.run(ctx, e)
	e.ended() // not every scenario has such a window
	if err != nil {
		return nil, err
	}
	for _, kind := range []string{"mutex", "block"} {
		f, err := file(kind)
		if err == nil {
			err = errors.Join(pprof.Lookup(kind).WriteTo(f, 0), f.Close())
		}
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}
