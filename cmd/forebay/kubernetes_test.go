package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// manifest has the fields of an object of Kubernetes that tests play. internal/manifesttest checks all fields against their types.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		ClusterIP                string `yaml:"clusterIP"`
		PublishNotReadyAddresses bool   `yaml:"publishNotReadyAddresses"`
		Replicas                 int
		PodManagementPolicy      string `yaml:"podManagementPolicy"`
		ServiceName              string `yaml:"serviceName"`
		Selector                 struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
			Labels      map[string]string `yaml:",inline"` // of a Service
		}
		Ports []struct {
			TargetPort string `yaml:"targetPort"`
		}
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     podSpec
		}
		VolumeClaimTemplates []struct{ Metadata struct{ Name string } } `yaml:"volumeClaimTemplates"`
	}
}

type podSpec struct {
	TerminationGracePeriodSeconds int64 `yaml:"terminationGracePeriodSeconds"`
	EnableServiceLinks            *bool `yaml:"enableServiceLinks"`
	SecurityContext               struct {
		RunAsUser  int `yaml:"runAsUser"`
		RunAsGroup int `yaml:"runAsGroup"`
		FSGroup    int `yaml:"fsGroup"`
	} `yaml:"securityContext"`
	Containers []container
	Volumes    []struct {
		Name      string
		ConfigMap struct{ Name string } `yaml:"configMap"`
		Secret    struct {
			SecretName string `yaml:"secretName"`
		}
	}
}

type container struct {
	Args []string
	Env  []struct {
		Name, Value string
		ValueFrom   struct {
			FieldRef struct {
				FieldPath string `yaml:"fieldPath"`
			} `yaml:"fieldRef"`
		} `yaml:"valueFrom"`
	}
	Ports []struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	StartupProbe, LivenessProbe, ReadinessProbe probe
	Lifecycle                                   struct {
		PreStop struct{ Sleep struct{ Seconds int64 } } `yaml:"preStop"`
	}
	VolumeMounts []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

// UnmarshalYAML reads the probes, whose keys are of two words.
func (c *container) UnmarshalYAML(n *yaml.Node) error {
	type plain container
	var probes struct {
		Startup   probe `yaml:"startupProbe"`
		Liveness  probe `yaml:"livenessProbe"`
		Readiness probe `yaml:"readinessProbe"`
	}
	err := errors.Join(n.Decode((*plain)(c)), n.Decode(&probes))
	c.StartupProbe, c.LivenessProbe, c.ReadinessProbe = probes.Startup, probes.Liveness, probes.Readiness
	return err
}

// readManifests returns the objects of a file by kind and name.
func readManifests(t *testing.T, file string) map[string]manifest {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "deploy", "kubernetes", file))
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]manifest{}
	for d := yaml.NewDecoder(bytes.NewReader(content)); ; {
		var m manifest
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatalf("%s: got %v, want no error", file, err)
		}
		objects[m.Kind+"/"+m.Metadata.Name] = m
	}
}

// checkSecrets checks that the command at the top of a manifest makes the keys of a Secret.
func checkSecrets(t *testing.T, file string, secrets map[string]string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "deploy", "kubernetes", file))
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, m := range regexp.MustCompile(`--from-literal=([\w-]+)=`).FindAllStringSubmatch(string(content), -1) {
		shown = append(shown, m[1])
	}
	if want := slices.Sorted(maps.Keys(secrets)); !slices.Equal(slices.Sorted(slices.Values(shown)), want) {
		t.Errorf("the command in %s makes the keys %q, want the keys that the pod reads, %q", file, shown, want)
	}
}

// pod is the container of a StatefulSet as a process of this machine. It has the variables of the image and of the manifest, and its volumes are
// folders.
type pod struct {
	set    manifest
	spec   podSpec
	folder map[string]string // by the path in the container
}

// newPod makes the folders of the volumes. secrets are the keys of its Secret.
func newPod(t *testing.T, objects map[string]manifest, name string, secrets map[string]string) pod {
	t.Helper()
	set := objects["StatefulSet/"+name]
	p := pod{set: set, spec: set.Spec.Template.Spec, folder: map[string]string{}}
	for _, mount := range p.spec.Containers[0].VolumeMounts {
		folder := t.TempDir()
		p.folder[mount.MountPath] = folder
		found := slices.ContainsFunc(set.Spec.VolumeClaimTemplates, func(c struct{ Metadata struct{ Name string } }) bool { return c.Metadata.Name == mount.Name })
		for _, volume := range p.spec.Volumes {
			if volume.Name != mount.Name {
				continue
			}
			found = true
			files := objects["ConfigMap/"+volume.ConfigMap.Name].Data
			if volume.Secret.SecretName != "" {
				files = secrets
			}
			for file, text := range files {
				write(t, filepath.Join(folder, file), text)
			}
		}
		if !found {
			t.Errorf("the volume %s of %s is not defined", mount.Name, mount.MountPath)
		}
	}
	return p
}

// start starts the pod with a name, at an address for events. replace has pairs of texts of the manifest and of this machine.
func (p pod) start(t *testing.T, name, events string, replace ...string) *serving {
	t.Helper()
	c := p.spec.Containers[0]
	for path, folder := range p.folder {
		replace = append(replace, path+"/", folder+"/", "="+path, "="+folder)
	}
	values := strings.NewReplacer(replace...)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), asProgram+"=1")
	for _, variable := range readDockerfile(t).env {
		cmd.Env = append(cmd.Env, values.Replace(variable))
	}
	cmd.Env = append(append(cmd.Env, anyPorts...), "FOREBAY_ADDR="+events)
	for _, e := range c.Env {
		value := e.Value
		if e.ValueFrom.FieldRef.FieldPath == "metadata.name" {
			value = name
		}
		cmd.Env = append(cmd.Env, values.Replace(e.Name+"="+strings.ReplaceAll(value, "$(FOREBAY_NODE)", name)))
	}
	for _, arg := range c.Args {
		cmd.Args = append(cmd.Args, values.Replace(arg))
	}
	return begin(t, cmd)
}

// checkPod compares the manifests with each other and with the image.
func checkPod(t *testing.T, objects map[string]manifest, name string) {
	t.Helper()
	set := objects["StatefulSet/"+name]
	spec, c, img := set.Spec.Template.Spec, set.Spec.Template.Spec.Containers[0], readDockerfile(t)
	cfg, _ := img.config(t)
	if least := time.Duration(c.Lifecycle.PreStop.Sleep.Seconds)*time.Second + cfg.ShutdownTimeout + closePatience; time.Duration(spec.TerminationGracePeriodSeconds)*time.Second < least {
		t.Errorf("terminationGracePeriodSeconds is %d, want at least %s: preStop, -shutdown-timeout and Close", spec.TerminationGracePeriodSeconds, least)
	}
	if spec.EnableServiceLinks == nil || *spec.EnableServiceLinks {
		t.Error("enableServiceLinks must be false: the variables of a Service with the name forebay begin as the flags do")
	}
	for what, id := range map[string]int{"runAsUser": spec.SecurityContext.RunAsUser, "runAsGroup": spec.SecurityContext.RunAsGroup, "fsGroup": spec.SecurityContext.FSGroup} {
		if id != img.uid || id != img.gid {
			t.Errorf("%s is %d, want %d, the user and the group of the image", what, id, img.uid)
		}
	}
	ports := map[string]string{}
	for _, p := range c.Ports {
		ports[p.Name] = fmt.Sprintf(":%d", p.ContainerPort)
	}
	want := map[string]string{"events": cfg.Addr, "api": cfg.APIAddr, "otlp-grpc": cfg.otlpGRPC, "otlp-http": cfg.otlpHTTP}
	delete(ports, "cluster")
	if !maps.Equal(ports, want) {
		t.Errorf("the ports of the container are %v, want the ports of the image, %v", ports, want)
	}
	for what, p := range map[string]probe{"startupProbe": c.StartupProbe, "livenessProbe": c.LivenessProbe, "readinessProbe": c.ReadinessProbe} {
		if p.HTTPGet.Port != "events" {
			t.Errorf("the %s asks the port %q, want events", what, p.HTTPGet.Port)
		}
	}
	labels := set.Spec.Template.Metadata.Labels
	for at, object := range objects {
		selected := object.Spec.Selector.MatchLabels
		if object.Kind == "Service" {
			selected = object.Spec.Selector.Labels
			for _, port := range object.Spec.Ports {
				if want[port.TargetPort] == "" && port.TargetPort != "cluster" {
					t.Errorf("%s: the container has no port %q", at, port.TargetPort)
				}
			}
		}
		if object.Kind != "ConfigMap" && (len(labels) == 0 || !maps.Equal(selected, labels)) {
			t.Errorf("%s selects %v, want the labels of the pods, %v", at, selected, labels)
		}
	}
	if service, ok := objects["Service/"+set.Spec.ServiceName]; !ok || service.Spec.ClusterIP != "None" {
		t.Errorf("serviceName is %q, want a headless Service of the file", set.Spec.ServiceName)
	}
	if _, ok := objects["PodDisruptionBudget/"+name]; !ok {
		t.Error("the file has no PodDisruptionBudget")
	}
}

// probed asks a probe of the process.
func (s *serving) probed(p probe) int {
	resp, err := http.Get("http://" + s.addr["ingest"] + p.HTTPGet.Path)
	if err != nil {
		s.t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// The server of the manifest starts with its arguments, variables, files and secrets, and responds to its probes.
func TestKubernetesServer(t *testing.T) {
	objects := readManifests(t, "forebay.yaml")
	checkPod(t, objects, "forebay")
	db := filepath.Join(t.TempDir(), "events.db")
	secrets := map[string]string{"web-secret": webSecret, "database": "sqlite:" + db}
	checkSecrets(t, "forebay.yaml", secrets)
	p := newPod(t, objects, "forebay", secrets)
	s := p.start(t, "forebay-0", "127.0.0.1:0")
	s.awaitReady()
	c := p.spec.Containers[0]
	for what, one := range map[string]probe{"startupProbe": c.StartupProbe, "livenessProbe": c.LivenessProbe, "readinessProbe": c.ReadinessProbe} {
		if status := s.probed(one); status != http.StatusOK {
			t.Errorf("%s %s: got %d, want 200", what, one.HTTPGet.Path, status)
		}
	}
	if status, text := s.post("ingest", "/stream/1/web/"+webSecret, `{"user":{"id":42}}`); status != http.StatusOK {
		t.Errorf("an event: got %d %s, want 200", status, text)
	}
	s.stop()
	if n := rowsOf(t, db, "events"); n != 1 {
		t.Errorf("the table has %d rows, want 1", n)
	}
	if entries, err := os.ReadDir(p.folder["/data"]); err != nil || len(entries) == 0 {
		t.Errorf("the volume at /data is empty, %v: the rows were elsewhere", err)
	}
}

// The pods of the cluster's manifest find each other by the names that they have in it. A pod that waits for the others is alive and not ready.
func TestKubernetesCluster(t *testing.T) {
	objects := readManifests(t, "cluster.yaml")
	const name = "forebay-cluster"
	checkPod(t, objects, name)
	set := objects["StatefulSet/"+name].Spec
	if !objects["Service/"+set.ServiceName].Spec.PublishNotReadyAddresses || set.PodManagementPolicy != "Parallel" {
		t.Error("the nodes must find each other before they are ready: want publishNotReadyAddresses, and podManagementPolicy Parallel")
	}
	shared := t.TempDir()
	secrets := map[string]string{"cluster-secret": "secret-of-the-servers", "token": clusterToken, "database": "dir:" + filepath.Join(shared, "tables")}
	checkSecrets(t, "cluster.yaml", secrets)
	replace := []string{"s3://my-bucket/staging", "dir:" + filepath.Join(shared, "staging")}
	free := addresses(t, set.Replicas+1)
	listen, events := free[1:], free[0]
	for i, address := range listen {
		replace = append(replace, fmt.Sprintf("%s-%d.%s:6222", name, i, set.ServiceName), address)
	}
	nodes := make([]*serving, set.Replicas)
	var c container
	for i := range nodes {
		p := newPod(t, objects, name, secrets)
		c = p.spec.Containers[0]
		pod := fmt.Sprintf("%s-%d", name, i)
		nodes[i] = p.start(t, pod, []string{events, "127.0.0.1:0", "127.0.0.1:0"}[i], append(slices.Clone(replace), "0.0.0.0:6222", listen[i])...)
		if i == 0 {
			nodes[0].addr["ingest"] = events
			eventually(t, "the first node listens", func() error {
				if _, err := nodes[0].state(); err != nil {
					return fmt.Errorf("%w\n%s", err, nodes[0].Logs())
				}
				return nil
			})
			if live, ready := nodes[0].probed(c.LivenessProbe), nodes[0].probed(c.ReadinessProbe); live != http.StatusOK || ready != http.StatusServiceUnavailable {
				t.Errorf("a node that waits responds %d to the livenessProbe and %d to the readinessProbe, want 200 and 503", live, ready)
			}
		}
	}
	for i, node := range nodes {
		timer := time.AfterFunc(clusterPatience, node.Kill)
		node.awaitReady()
		timer.Stop()
		eventually(t, "the readinessProbe responds", func() error { // a busy node may be away from its log for a moment
			state, err := node.state()
			if status := node.probed(c.ReadinessProbe); err != nil || status != http.StatusOK || state.Node != fmt.Sprintf("%s-%d", name, i) {
				return fmt.Errorf("pod %d: the readinessProbe responds %d, %+v, %v, want 200 and the name of the pod", i, status, state, err)
			}
			return nil
		})
	}
	for _, node := range nodes {
		node.stop()
	}
}
