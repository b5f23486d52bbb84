package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// anyPorts are variables with which a server listens at free ports.
var anyPorts = []string{"FOREBAY_ADDR=127.0.0.1:0", "FOREBAY_API_ADDR=127.0.0.1:0", "FOREBAY_OTLP_GRPC=127.0.0.1:0", "FOREBAY_OTLP_HTTP=127.0.0.1:0"}

// image has the instructions of the Dockerfile.
type image struct {
	// runs are the commands of the first stage. copies are the files that the last stage copies from it.
	runs                        []string
	copies                      []imageCopy
	env                         []string
	uid, gid                    int
	workdir, volume             string
	expose                      []string
	health, entrypoint, command []string
}

type imageCopy struct {
	from, to string
	owned    bool // by the user of the image, and not by root
}

// readDockerfile understands the instructions that the Dockerfile has. It fails at any other.
func readDockerfile(t *testing.T) image {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(string(content), "")
	module, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	_, version, _ := strings.Cut(string(module), "\ngo ")
	if want := "golang:" + version[:len("1.26")] + "\n"; !strings.Contains(text, want) {
		t.Errorf("the Dockerfile builds with another Go than go.mod requires, want %q", want)
	}
	var img image
	var stages []string
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		last := len(stages) == 2
		words := strings.Fields(rest)
		exec := func() (words []string) {
			if err := json.Unmarshal([]byte(rest), &words); err != nil {
				t.Fatalf("Dockerfile: %s: want a list in JSON, so that no shell is needed: %v", line, err)
			}
			return words
		}
		switch {
		case name == "":
		case name == "FROM":
			stages = append(stages, rest)
		case name == "ARG" && !last, name == "COPY" && !last && rest == ". /src", name == "WORKDIR" && !last && rest == "/src/cmd/forebay":
		case name == "RUN" && !last:
			img.runs = append(img.runs, regexp.MustCompile(`--mount=\S+`).ReplaceAllString(rest, ""))
		case name == "COPY" && last && words[0] == "--from=build":
			one := imageCopy{from: words[len(words)-2], to: words[len(words)-1], owned: words[1] == "--chown=65532:65532"}
			img.copies = append(img.copies, one)
		case name == "ENV" && last:
			img.env = append(img.env, rest)
		case name == "EXPOSE" && last:
			img.expose = words
		case name == "USER" && last:
			if _, err := fmt.Sscanf(rest, "%d:%d", &img.uid, &img.gid); err != nil {
				t.Fatalf("USER is %q, want two numbers: Kubernetes cannot tell from a name that it is not root", rest)
			}
		case name == "WORKDIR" && last:
			img.workdir = rest
		case name == "VOLUME" && last:
			img.volume = rest
		case name == "HEALTHCHECK" && last:
			_, rest, _ = strings.Cut(rest, "CMD ")
			img.health = exec()
		case name == "ENTRYPOINT" && last:
			img.entrypoint = exec()
		case name == "CMD" && last:
			img.command = exec()
		default:
			t.Fatalf("this test does not know the instruction of the Dockerfile: %s", line)
		}
	}
	if len(stages) != 2 || stages[1] != "scratch" || img.uid == 0 || img.gid == 0 {
		t.Fatalf("the stages are %q and the user is %d:%d, want two stages, the last from scratch, and not root", stages, img.uid, img.gid)
	}
	return img
}

// config are the flags of the server that runs in the image.
func (img image) config(t *testing.T) (*serveConfig, error) {
	t.Helper()
	p := process{getenv: func(name string) (string, bool) {
		for _, variable := range img.env {
			if value, ok := strings.CutPrefix(variable, name+"="); ok {
				return value, true
			}
		}
		return "", false
	}}
	return p.parseServe(img.command[0], img.command[1:], nil)
}

// build plays the first stage on this machine and returns the folder with the files of the image.
func (img image) build(t *testing.T) (root string) {
	t.Helper()
	built, root := t.TempDir(), t.TempDir()
	source, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range img.runs {
		run := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(command, "/image", built))
		run.Dir = filepath.Join(source, "cmd", "forebay")
		if out, err := run.CombinedOutput(); err != nil {
			t.Fatalf("RUN %s: %v\n%s", command, err, out)
		}
	}
	for _, one := range img.copies {
		from := one.from
		if rest, ok := strings.CutPrefix(from, "/image"); ok {
			from = built + rest
		}
		to := filepath.Join(root, one.to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		flags := "-dRP"
		if strings.HasSuffix(one.from, "/") {
			from += "."
		}
		if out, err := exec.CommandContext(t.Context(), "cp", flags, "--preserve=mode", from, to).CombinedOutput(); err != nil {
			t.Fatalf("COPY %s %s: %v\n%s", one.from, one.to, err, out)
		}
		if !one.owned {
			continue
		}
		entries, err := os.ReadDir(strings.TrimSuffix(from, "."))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if err := os.Chown(filepath.Join(to, entry.Name()), img.uid, img.gid); err != nil {
				t.Fatal(err)
			}
		}
	}
	return root
}

// The image's variables are flags of the server, its ports are the server's, and the data directory is the volume.
func TestImageFitsTheServer(t *testing.T) {
	img := readDockerfile(t)
	cfg, err := img.config(t)
	if err != nil {
		t.Fatalf("the server in the image does not accept the variables %q: %v", img.env, err)
	}
	var ports []string
	for _, addr := range []string{cfg.Addr, cfg.APIAddr, cfg.otlpGRPC, cfg.otlpHTTP} {
		ports = append(ports, strings.TrimPrefix(addr, ":"))
	}
	if !slices.Equal(img.expose, ports) {
		t.Errorf("the image exposes %q, want the ports of the server, %q", img.expose, ports)
	}
	if cfg.Dir != img.volume || img.workdir != img.volume {
		t.Errorf("the data directory is %s and the working directory %s, want the volume %s", cfg.Dir, img.workdir, img.volume)
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "deploy.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{" -v forebay:" + img.volume + " ", fmt.Sprintf(" user %d", img.uid), "-p 127.0.0.1" + cfg.Addr + cfg.Addr + " "} {
		if !strings.Contains(string(page), want) {
			t.Errorf("docs/deploy.md does not have %q", want)
		}
	}
}
