package platform

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/forebay/forebay/driverkit/jsontext"
)

// Encrypted values belong to a scope, which is a component, a project, a component in a project, or a configuration. A run can read
// the values whose scope it is in. A value is the prefix of its kind of scope and base64 of a version, a nonce and the text under
// AES-256-GCM, which authenticates the scope as well. A value that is copied to another scope cannot be read there.

const (
	// maxEncryptBody is how many bytes one call may encrypt.
	maxEncryptBody = 1 << 20
	cipherVersion  = 1
	keyBytes       = 32
)

// vault encrypts and decrypts with the key of an installation.
type vault struct{ aead cipher.AEAD }

// openVault reads the key of the installation. The first opening makes it.
func openVault(path string) (*vault, error) {
	secret, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		secret = make([]byte, keyBytes)
		_, _ = rand.Read(secret) // never fails
		_, err = writeDurably(path, "key", func(w io.Writer) error {
			_, err := w.Write(secret)
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	if len(secret) != keyBytes {
		return nil, fmt.Errorf("the key in %s has %d bytes, want %d: without the right key no encrypted value can be read", path, len(secret), keyBytes)
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	return &vault{aead}, err
}

// cipherScope says where a value can be read. A value of a project alone has no component.
type cipherScope struct{ component, project, config string }

// prefix marks the narrowest scope that the fields name.
func (s cipherScope) prefix() string {
	switch {
	case s.config != "":
		return configCipher
	case s.component == "":
		return projectWideCipher
	case s.project != "":
		return projectCipher
	}
	return componentCipher
}

// bound is the data with which a value with that prefix is authenticated.
func (s cipherScope) bound(prefix string) []byte {
	switch prefix {
	case componentCipher:
		s.project, s.config = "", ""
	case projectWideCipher:
		s.component, s.config = "", ""
	case projectCipher:
		s.config = ""
	}
	return []byte(strings.Join([]string{prefix, s.component, s.project, s.config}, sep))
}

// encryptedForm matches the start of every encrypted value, including values of unknown scopes and key stores, because such a
// value must not reach a program as if it were the secret.
var encryptedForm = regexp.MustCompile(`^` + cipherMark + `[0-9A-Za-z]+(::|==)`)

// isEncrypted reports whether the text has the form of an encrypted value, and its prefix.
func isEncrypted(text string) (prefix string, yes bool) {
	prefix = encryptedForm.FindString(text)
	return prefix, prefix != ""
}

// encrypt returns text as an encrypted value. It leaves encrypted values as they are.
func (v *vault) encrypt(scope cipherScope, text string) string {
	if _, done := isEncrypted(text); done {
		return text
	}
	prefix := scope.prefix()
	sealed := make([]byte, 1+v.aead.NonceSize(), 1+v.aead.NonceSize()+len(text)+v.aead.Overhead())
	sealed[0] = cipherVersion
	nonce := sealed[1:]
	_, _ = rand.Read(nonce) // never fails
	sealed = v.aead.Seal(sealed, nonce, []byte(text), scope.bound(prefix))
	return prefix + base64.RawURLEncoding.EncodeToString(sealed)
}

var errForeignCipher = errors.New("the value was encrypted for another component, project or configuration, by another installation, or is damaged: encrypt it again")

// decrypt returns the text of an encrypted value. Any other text is returned as it is.
func (v *vault) decrypt(scope cipherScope, text string) (string, error) {
	prefix, yes := isEncrypted(text)
	if !yes {
		return text, nil
	}
	sealed, err := base64.RawURLEncoding.DecodeString(text[len(prefix):])
	head := 1 + v.aead.NonceSize()
	if err != nil || len(sealed) < head || sealed[0] != cipherVersion {
		return "", errForeignCipher
	}
	plain, err := v.aead.Open(nil, sealed[1:head], sealed[head:], scope.bound(prefix))
	if err != nil {
		return "", errForeignCipher
	}
	return string(plain), nil
}

// mapSecrets replaces the texts under names that begin with "#", at any depth. Everything else keeps its bytes, except white
// space. raw is valid JSON. Errors name the path, such as parameters.#password.
func mapSecrets(raw json.RawMessage, replace func(text string) (string, error)) (json.RawMessage, error) {
	if !bytes.Contains(raw, []byte("#")) && !bytes.Contains(raw, []byte(`\u`)) {
		return raw, nil // no name can begin with "#"
	}
	m := secretMapper{replace: replace}
	out := m.value(nil, gjson.ParseBytes(raw), "", false)
	return out, m.err
}

type secretMapper struct {
	replace func(text string) (string, error)
	err     error // the first one
}

// value appends a value at a path. secret says that it stands under a name that begins with "#".
func (m *secretMapper) value(dst []byte, v gjson.Result, path string, secret bool) []byte {
	switch {
	case m.err != nil:
		return dst
	case v.IsObject():
		return appendMembers(dst, v, func(dst []byte, name, value gjson.Result) []byte {
			below := name.Str
			if path != "" {
				below = path + "." + below
			}
			return m.value(dst, value, below, strings.HasPrefix(name.Str, "#"))
		})
	case v.IsArray():
		dst = append(dst, '[')
		for i, item := range v.Array() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = m.value(dst, item, path+"["+strconv.Itoa(i)+"]", secret)
		}
		return append(dst, ']')
	case secret && v.Type == gjson.String:
		text, err := m.replace(v.Str)
		if err != nil {
			m.err = fmt.Errorf("%s: %w", path, err)
		}
		return jsontext.AppendString(dst, text, false)
	}
	return append(dst, v.Raw...)
}

// appendMembers appends an object with the members of object in their order. value appends a value, and a member for which it
// appends nothing is left out.
func appendMembers(dst []byte, object gjson.Result, value func(dst []byte, name, value gjson.Result) []byte) []byte {
	dst = append(dst, '{')
	empty := true
	object.ForEach(func(name, v gjson.Result) bool {
		before := len(dst)
		if !empty {
			dst = append(dst, ',')
		}
		dst = append(append(dst, name.Raw...), ':')
		head := len(dst)
		if dst = value(dst, name, v); len(dst) == head {
			dst = dst[:before]
		} else {
			empty = false
		}
		return true
	})
	return append(dst, '}')
}

// withoutRunNodes leaves out the nodes that are made at run time and never stored. content is compact JSON.
func withoutRunNodes(content json.RawMessage) json.RawMessage {
	if kindOf(content) != '{' {
		return content
	}
	return appendMembers(nil, gjson.ParseBytes(content), func(dst []byte, name, value gjson.Result) []byte {
		if name.Str == "image_parameters" || name.Str == "action" {
			return dst
		}
		return append(dst, value.Raw...)
	})
}

// decryptSecrets makes the content for the program of a component. The values under names that begin with "#" are in the clear.
func (e *execution) decryptSecrets(content json.RawMessage) (json.RawMessage, error) {
	scope := cipherScope{e.record.Component, strconv.FormatInt(e.q.s.opts.ProjectID, 10), e.record.Config}
	out, err := mapSecrets(content, func(text string) (string, error) {
		clear, err := e.q.s.vault.decrypt(scope, text)
		if clear != text {
			e.mask.add(clear)
		}
		return clear, err
	})
	if errors.Is(err, errForeignCipher) {
		return nil, UserError(err)
	}
	return out, err
}

func (s *Server) encryptionRoutes() []route {
	return []route{
		{method: "POST", path: "/encrypt", summary: "Encrypt a text, or the members of a JSON object whose names begin with #", public: true, api: encryptionAPI, query: "componentId projectId configId branchType", body: "*", result: text(""), run: (*request).encrypt},
	}
}

// encrypt responds in the media type of the request. It needs no token, because only components of this installation can read the
// response. It accepts a project other than this server's. Runs here cannot read such a value.
func (c *request) encrypt() (any, error) {
	query := c.r.URL.Query()
	scope := cipherScope{query.Get("componentId"), query.Get("projectId"), query.Get("configId")}
	switch {
	case scope.component == "" && scope.project == "":
		return nil, refuse(http.StatusBadRequest, "", "Parameter componentId or projectId is required")
	case scope.config != "" && (scope.component == "" || scope.project == ""):
		return nil, refuse(http.StatusBadRequest, "", "Parameter configId needs componentId and projectId")
	}
	if scope.project != "" {
		project, err := strconv.ParseUint(scope.project, 10, 63)
		if err != nil {
			return nil, refuse(http.StatusBadRequest, "", "Parameter projectId: want the number of a project, got %q", cut(scope.project, 40))
		}
		scope.project = strconv.FormatUint(project, 10)
	}
	if scope.component != "" {
		if _, err := c.s.component(scope.component); err != nil {
			return nil, refuse(http.StatusBadRequest, "", "Component %q not found", cut(scope.component, 255))
		}
	}
	data, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, maxEncryptBody))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, refuse(http.StatusRequestEntityTooLarge, "", "The body has more than %d bytes", maxEncryptBody)
	}
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "", "The body could not be read")
	}
	mediaType, _, _ := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	switch mediaType {
	case "text/plain":
		if len(data) == 0 || !utf8.Valid(data) {
			return nil, refuse(http.StatusBadRequest, "", "The body is empty or not UTF-8")
		}
		return encryptedAnswer("text/plain", []byte(c.s.vault.encrypt(scope, string(data)))), nil
	case "application/json":
		if kind := kindOf(data); kind != '{' && kind != '[' || !json.Valid(data) {
			return nil, refuse(http.StatusBadRequest, "", "The body is no JSON object")
		}
		out, err := mapSecrets(data, func(text string) (string, error) { return c.s.vault.encrypt(scope, text), nil })
		if err != nil {
			return nil, err
		}
		return encryptedAnswer("application/json", out), nil
	}
	return nil, refuse(http.StatusUnsupportedMediaType, "", "Content-Type: want text/plain or application/json")
}

func encryptedAnswer(contentType string, body []byte) rawAnswer {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
	}
}
