// Package manifesttest checks the manifests in deploy/kubernetes against the types of Kubernetes, as an API server reads them.
package manifesttest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/json"
	toJSON "sigs.k8s.io/yaml"
)

// newObject returns an object of a kind that the manifests have.
func newObject(of metav1.TypeMeta) (metav1.Object, error) {
	switch of {
	case metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}:
		return new(corev1.ConfigMap), nil
	case metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}:
		return new(corev1.Service), nil
	case metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}:
		return new(appsv1.StatefulSet), nil
	case metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}:
		return new(policyv1.PodDisruptionBudget), nil
	}
	return nil, fmt.Errorf("the test does not know %s %s", of.APIVersion, of.Kind)
}

// check returns the number of objects in a manifest, and everything that is wrong with them.
func check(manifest string) (n int, err error) {
	documents := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifest)))
	var problems []error
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return n, errors.Join(problems...)
		}
		if err == nil {
			n++
			err = checkObject(document)
		}
		if err != nil {
			problems = append(problems, err)
		}
	}
}

// checkObject refuses keys that a type does not have, in another case too, keys that are there twice, and values of another type.
func checkObject(document []byte) error {
	text, err := toJSON.YAMLToJSONStrict(document)
	if err != nil {
		return err
	}
	var of metav1.TypeMeta
	if err := json.UnmarshalCaseSensitivePreserveInts(text, &of); err != nil {
		return err
	}
	object, err := newObject(of)
	if err != nil {
		return err
	}
	problems, err := json.UnmarshalStrict(text, object)
	problems = append(problems, err)
	say := func(what string, texts []string) {
		for _, text := range texts {
			problems = append(problems, fmt.Errorf("%s: %s", what, text))
		}
	}
	say("metadata.name", validation.IsDNS1123Label(object.GetName()))
	for name, value := range object.GetLabels() {
		say("label "+name, append(validation.IsQualifiedName(name), validation.IsValidLabelValue(value)...))
	}
	switch object := object.(type) {
	case *corev1.Service:
		for _, port := range object.Spec.Ports {
			say("port "+port.Name, append(validation.IsDNS1123Label(port.Name), validation.IsValidPortName(port.TargetPort.StrVal)...))
		}
	case *appsv1.StatefulSet:
		for _, c := range object.Spec.Template.Spec.Containers {
			for _, port := range c.Ports {
				say("port "+port.Name, append(validation.IsValidPortName(port.Name), validation.IsValidPortNum(int(port.ContainerPort))...))
			}
			for _, e := range c.Env {
				say("variable "+e.Name, validation.IsEnvVarName(e.Name))
			}
		}
	}
	if len(problems) == 1 && problems[0] == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", of.Kind, object.GetName(), errors.Join(problems...))
}

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "deploy", "kubernetes", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(content))
}

// Every key of the manifests is a key of its type, with a value of its type. cmd/forebay plays the manifests.
func TestManifests(t *testing.T) {
	for name, want := range map[string]int{"forebay.yaml": 5, "cluster.yaml": 4} {
		if n, err := check(read(t, name)); err != nil || n != want {
			t.Errorf("%s: got %d objects, want %d; %v", name, n, want, err)
		}
	}
}

func TestMistakesAreFound(t *testing.T) {
	manifest := read(t, "forebay.yaml")
	for _, tt := range []struct{ old, new, want string }{
		{"terminationGracePeriodSeconds: 90", "terminationgraceperiodseconds: 90", `unknown field "spec.template.spec.terminationgraceperiodseconds"`},
		{"terminationGracePeriodSeconds: 90", "terminationGracePeriodSeconds: 90s", "terminationGracePeriodSeconds"},
		{"fsGroup: 65532", "fsGroup: 65532\n        fsGroup: 65532", `"fsGroup" already set`},
		{"failureThreshold: 150", "failures: 150", `unknown field "spec.template.spec.containers[0].startupProbe.failures"`},
		{"{storage: 24Gi}", "{storage: 24 GiB}", "quantities must match"},
		{"{name: otlp-grpc, containerPort", "{name: otlp-over-grpc-port, containerPort", "port otlp-over-grpc-port: must be no more than 15"},
		{"kind: PodDisruptionBudget", "kind: PodDisruptionBudgets", "the test does not know policy/v1 PodDisruptionBudgets"},
		{"labels: {app.kubernetes.io/name: forebay}", "labels: {app.kubernetes.io/name: fore bay}", "label app.kubernetes.io/name"},
		{"labels: {app.kubernetes.io/name: forebay}", "labels: *labels", "unknown anchor"},
	} {
		_, err := check(strings.Replace(manifest, tt.old, tt.new, 1))
		if !strings.Contains(manifest, tt.old) || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s in place of %s: got %v, want %q", tt.new, tt.old, err, tt.want)
		}
	}
}
