package extract

import (
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/forebay/forebay/internal/program/web"
)

// toyConfig is a configuration for the API below: a login, pages by links, the items of every order, and prices in CSV, of which only new ones
// are asked for.
//
//go:embed toy.json
var toyConfig []byte

// The API has this many orders, and knows the SHA-1 of the password.
const (
	toyOrders   = 10
	toyPrices   = 5
	toyPassword = "11533ded8c2154d156c9c2597c3385e2fb77d0e1"
)

// A toyAPI is a shop with a handful of orders.
type toyAPI struct{ token string }

// serveToy starts the API on a free port of this machine and returns its base URL.
func serveToy() (server *web.Server, url string, err error) {
	api := &toyAPI{strings.ToLower(rand.Text())}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/login", api.login)
	mux.HandleFunc("GET /v1/orders", api.signed(api.orders))
	mux.HandleFunc("GET /v1/orders/{id}/items", api.signed(api.items))
	mux.HandleFunc("GET /v1/prices", api.signed(api.prices))
	if server, err = web.Local(mux); err != nil {
		return nil, "", err
	}
	return server, "http://" + server.Addr + "/v1/", nil
}

type object map[string]any

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func (api *toyAPI) login(w http.ResponseWriter, r *http.Request) {
	var in struct{ User, Proof string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.User != "shop" || in.Proof != toyPassword {
		answer(w, http.StatusForbidden, object{"error": "unknown user or password"})
		return
	}
	answer(w, http.StatusOK, object{"session": object{"token": api.token, "seconds": 3600}})
}

func (api *toyAPI) signed(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+api.token {
			answer(w, http.StatusUnauthorized, object{"error": "log in first"})
			return
		}
		next(w, r)
	}
}

func (api *toyAPI) orders(w http.ResponseWriter, r *http.Request) {
	from, _ := strconv.Atoi(r.URL.Query().Get("from"))
	size, err := strconv.Atoi(r.URL.Query().Get("size"))
	if err != nil || size < 1 || from < 0 {
		answer(w, http.StatusBadRequest, object{"error": "size must be a positive number"})
		return
	}
	customers := []string{"Ada", "Grace", "Edsger"}
	list := []object{}
	for id := from + 1; id <= min(from+size, toyOrders); id++ {
		list = append(list, object{
			"id": id, "customer": object{"name": customers[id%len(customers)]}, "total": float64(id) * 9.5,
			"tags": []string{"web"}[:id%2],
		})
	}
	links := object{}
	if from+size < toyOrders {
		links["next"] = fmt.Sprintf("?size=%d&from=%d", size, from+size)
	}
	answer(w, http.StatusOK, object{"orders": list, "links": links})
}

func (api *toyAPI) items(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || id < 1 || id > toyOrders {
		answer(w, http.StatusNotFound, object{"error": "no such order"})
		return
	}
	list := []object{}
	for n := range id%3 + 1 {
		list = append(list, object{"sku": fmt.Sprintf("S-%d%d", id, n), "quantity": n + 1})
	}
	answer(w, http.StatusOK, list)
}

// prices gives the changes of prices from a number on, in CSV, three a page. The header Link has the next page.
func (api *toyAPI) prices(w http.ResponseWriter, r *http.Request) {
	const size = 3
	since, err := strconv.Atoi(r.URL.Query().Get("since"))
	if err != nil || since < 0 {
		answer(w, http.StatusBadRequest, object{"error": "since must be a number"})
		return
	}
	first := max(since, 1)
	if first+size <= toyPrices {
		w.Header().Set("Link", fmt.Sprintf(`<?since=%d>; rel="next"`, first+size))
	}
	w.Header().Set("Content-Type", "text/csv")
	fmt.Fprintln(w, "change,sku,price")
	for change := first; change < first+size && change <= toyPrices; change++ {
		fmt.Fprintf(w, "%d,S-%d0,%d.50\n", change, change, 10+change)
	}
}
