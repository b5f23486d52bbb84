package streamapi

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/forebay/forebay/catalog"
)

// Identity is the project and the rights of a token.
type Identity struct {
	// ProjectID is the token's project. The API serves one project. Tokens of others are as good as unknown ones.
	ProjectID int
	// Master says that the token may use the API, Admin that it may change something.
	Master, Admin bool
	// By is recorded with every change.
	By catalog.By
}

// Authenticator verifies the tokens of the Stream API. [StaticToken] accepts one token. Package stream/platformauth asks the
// platform. Implementations must be safe for concurrent use and should cache results for a short time.
type Authenticator interface {
	// Verify returns the identity of a token. The error is an [*AuthError] for a refused token, and an [*UnavailableError] if the
	// token cannot be verified now. Other errors are faults of the service.
	Verify(ctx context.Context, token string) (Identity, error)
}

// ProgrammaticAuthenticator is an [Authenticator] that also verifies programmatic tokens. These begin with "kbc_at_" or
// "kbc_pat_" and are bound to no project, so a request names the project in X-KBC-ProjectId. Other Authenticators get them by
// Verify, like any token.
type ProgrammaticAuthenticator interface {
	Authenticator
	// VerifyProgrammatic exchanges a programmatic token for a token of the project and returns what that token stands for. Its
	// errors are the errors of Verify.
	VerifyProgrammatic(ctx context.Context, token string, projectID int) (Identity, error)
}

// AuthError is the refusal of a token.
type AuthError struct {
	// Status is the HTTP status, Name the machine-readable error, Message the text of the response. None has the token.
	Status        int
	Name, Message string
	// ExceptionID is the id that the platform gave, if any.
	ExceptionID string
}

func (e *AuthError) Error() string { return e.Name + ": " + e.Message }

// UnavailableError says that a token cannot be verified now because the platform is unreachable or at fault. The request gets 503 with
// Retry-After.
type UnavailableError struct {
	// Name, Message and ExceptionID are from the platform's response. Empty means that there was none.
	Name, Message, ExceptionID string
	// RetryAfter is when the client should try again. Default: 5 seconds.
	RetryAfter time.Duration
	// Err is the cause. It goes to the log only.
	Err error
}

func (e *UnavailableError) Error() string { return fmt.Sprintf("tokens cannot be verified: %v", e.Err) }
func (e *UnavailableError) Unwrap() error { return e.Err }

// invalidToken is the platform's response for a token that it does not know, including a token of another stack.
var invalidToken = &AuthError{Status: http.StatusUnauthorized, Name: "storage.tokenInvalid", Message: "Invalid Token: send a valid token in the header X-StorageApi-Token."}

// noProgrammaticTokens tells the client which tokens are accepted.
var noProgrammaticTokens = &AuthError{
	Status: http.StatusUnauthorized, Name: invalidToken.Name,
	Message: "Invalid Token: programmatic tokens are not accepted here, send a token of the project.",
}

// missingToken is reported together with other faults of the request's form.
var missingToken = names.Errorf(http.StatusBadRequest, "missingField", "%q is missing from header.", tokenHeader)

// StaticToken accepts one token for the given project, with all permissions, and no programmatic tokens. It panics if the token is
// empty, because an API that every caller can change must be an explicit decision in the program's code.
func StaticToken(token string, projectID int) Authenticator {
	if token == "" {
		panic("streamapi: StaticToken with an empty token")
	}
	return &staticToken{sum: sha256.Sum256([]byte(token)), project: projectID}
}

type staticToken struct {
	sum     [sha256.Size]byte
	project int
}

func (t *staticToken) Verify(_ context.Context, token string) (Identity, error) {
	sum := sha256.Sum256([]byte(token)) // so that the comparison tells not even the length
	if subtle.ConstantTimeCompare(sum[:], t.sum[:]) != 1 {
		if isProgrammatic(token) {
			return Identity{}, noProgrammaticTokens
		}
		return Identity{}, invalidToken
	}
	return Identity{
		ProjectID: t.project, Master: true, Admin: true,
		By: catalog.By{Type: "user", TokenID: "static", TokenDesc: "static token"},
	}, nil
}

// tokenHeader carries the token of a request, projectHeader the project of one with a programmatic token.
const (
	tokenHeader   = "X-StorageApi-Token"
	projectHeader = "X-KBC-ProjectId"
)

func isProgrammatic(token string) bool {
	return strings.HasPrefix(token, "kbc_at_") || strings.HasPrefix(token, "kbc_pat_")
}

// requestProject reads the project of a request with a programmatic token, or adds the fault to p.
func requestProject(r *http.Request, p *problems) int {
	text := r.Header.Get(projectHeader)
	n, err := parseInt(text)
	switch {
	case text == "":
		p.add("missingField", "%q is missing from header, a programmatic token needs it", projectHeader)
	case err != nil:
		p.add("invalidFieldType", "%s is %q, must be an integer", projectHeader, text)
	case n < 1:
		p.add("invalidRange", "%s must be greater or equal than 1 but got %d", projectHeader, n)
	}
	return n
}

// requestToken returns the token of a request without a scheme word before it, or "" when there is none.
func requestToken(r *http.Request) string {
	token := strings.TrimSpace(r.Header.Get(tokenHeader))
	if token == "" {
		scheme, rest, ok := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
		if !ok || !strings.EqualFold(scheme, "Bearer") {
			return ""
		}
		token = strings.TrimSpace(rest)
	}
	if _, rest, ok := strings.Cut(token, " "); ok {
		token = strings.TrimSpace(rest)
	}
	return token
}
