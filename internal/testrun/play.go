package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// pkg is a package with tests.
type pkg struct {
	ImportPath   string
	Dir          string
	TestGoFiles  []string
	XTestGoFiles []string
	Module       struct{ Dir string }
	size         int64 // of the files of tests
}

// list returns the packages in the folders that have tests. Folders may belong to different modules.
func list(ctx context.Context, folders []string) (packages []pkg, err error) {
	byModule := map[string][]string{}
	for _, f := range folders {
		dir, err := filepath.Abs(f)
		if err != nil {
			return nil, err
		}
		module := dir
		for !exists(filepath.Join(module, "go.mod")) {
			if module == filepath.Dir(module) {
				return nil, fmt.Errorf("%s is in no module", f)
			}
			module = filepath.Dir(module)
		}
		byModule[module] = append(byModule[module], dir)
	}
	for module, dirs := range byModule {
		c := exec.CommandContext(ctx, "go", append([]string{"list", "-json=ImportPath,Dir,TestGoFiles,XTestGoFiles,Module"}, dirs...)...)
		c.Dir, c.Stderr = module, os.Stderr
		out, err := c.Output()
		if err != nil {
			return nil, fmt.Errorf("go list in %s: %w", module, err)
		}
		for d := json.NewDecoder(strings.NewReader(string(out))); ; {
			var p pkg
			if err := d.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("go list in %s: %w", module, err)
			}
			for _, name := range append(p.TestGoFiles, p.XTestGoFiles...) {
				if info, err := os.Stat(filepath.Join(p.Dir, name)); err == nil {
					p.size += info.Size()
				}
			}
			if p.size > 0 {
				packages = append(packages, p)
			}
		}
	}
	return packages, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// chunk is how many packages one call of go test builds at most. The first ones run while it builds the next.
const chunk = 12

// chunks cuts the packages into groups that one call of go test can build, of one module, with test programs of different names.
func chunks(packages []pkg) (all [][]pkg) {
	for len(packages) > 0 {
		var now, later []pkg
		names := map[string]bool{}
		for _, p := range packages {
			name := filepath.Base(p.ImportPath)
			if len(now) == chunk || names[name] || len(now) > 0 && p.Module.Dir != now[0].Module.Dir {
				later = append(later, p)
				continue
			}
			names[name] = true
			now = append(now, p)
		}
		all, packages = append(all, now), later
	}
	return all
}

// play builds the packages in their order and runs each package that is built. It returns an error if a build fails. The results contain the
// failures of tests.
func play(ctx context.Context, o options, cache string, packages []pkg, out io.Writer) (results []result, err error) {
	built := make(chan pkg, len(packages))
	go func() {
		defer close(built)
		for _, c := range chunks(packages) {
			if err = build(ctx, o, cache, c, out); err != nil {
				return
			}
			for _, p := range c {
				built <- p
			}
		}
	}()
	var (
		mu sync.Mutex
		wg sync.WaitGroup
	)
	for range max(o.at, 1) {
		wg.Go(func() {
			for p := range built {
				r := test(ctx, o, program(cache, p), p)
				mu.Lock()
				results = append(results, r)
				word := "ok  "
				if r.err != nil {
					word = "FAIL"
				}
				fmt.Fprintf(out, "%s%s  %s  %.1fs, CPU %.1fs\n", r.text, word, p.ImportPath, r.took.Seconds(), r.cpu.Seconds())
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return results, err
}

// program returns the path of a package's test program. It contains the path of the package, because packages share last names.
func program(cache string, p pkg) string {
	return filepath.Join(cache, strings.ReplaceAll(strings.TrimPrefix(p.ImportPath, "github.com/forebay/forebay"), "/", "_")+".test")
}

// build links the test programs that are not up to date. The compiler and the linker collect garbage less often than by default. This saves
// a quarter of their CPU.
func build(ctx context.Context, o options, cache string, packages []pkg, out io.Writer) error {
	dir, err := os.MkdirTemp(cache, "build")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	args := append([]string{"test", "-c", "-vet=off", "-o", dir + string(filepath.Separator)}, strings.Fields(o.build)...)
	// go test does not link a program that has the right build ID, so build gives it the programs of the last run.
	for _, p := range packages {
		_ = os.Rename(program(cache, p), filepath.Join(dir, filepath.Base(p.ImportPath)+".test")) // there may be none
		args = append(args, p.Dir)
	}
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir, c.Stdout, c.Stderr = packages[0].Module.Dir, out, out
	c.Env = append(os.Environ(), "GOGC=400")
	if err := c.Run(); err != nil {
		return fmt.Errorf("building tests in %s: %w", c.Dir, err)
	}
	for _, p := range packages {
		if err := os.Rename(filepath.Join(dir, filepath.Base(p.ImportPath)+".test"), program(cache, p)); err != nil {
			return err
		}
	}
	return nil
}

// test runs a test program in the folder of its package, as go test does.
func test(ctx context.Context, o options, program string, p pkg) (r result) {
	r.pkg = p.ImportPath
	// The program ends itself after its time-out and prints all goroutines. It has a minute for that.
	ctx, cancel := context.WithTimeout(ctx, hangs+time.Minute)
	defer cancel()
	args := []string{"-test.paniconexit0", "-test.v", "-test.timeout=" + hangs.String()}
	c := exec.CommandContext(ctx, program, append(args, o.tests...)...)
	c.Dir, c.Env = p.Dir, append(os.Environ(), "PWD="+p.Dir)
	c.WaitDelay = 10 * time.Second // for children that keep the output open
	begin := time.Now()
	text, err := c.CombinedOutput()
	r.took, r.err = time.Since(begin), err
	if c.ProcessState != nil {
		r.cpu = c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	}
	var failed string
	r.tests, failed = read(string(text))
	if err != nil {
		r.text = failed + err.Error() + "\n"
	}
	return r
}
