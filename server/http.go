package server

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/pprof"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tidemark/tidemark/statemachine"
)

// Handler serves the operator's side:
//
//	GET  /metrics                              for Prometheus
//	GET  /healthz                              200 while the server can go on and no stream is halted, else 503 and why
//	GET  /readyz                               200 while connections are accepted
//	GET  /streams                              the list of Status as JSON
//	POST /streams/{collector}/resume           Resume
//	GET  /streams/{collector}/lost?below=N     what forget would give up
//	POST /streams/{collector}/forget?below=N   Forget
//	GET  /debug/pprof/                         only withProfiles
//
// It asks for no password: listen on a loopback address, or put a proxy in front. What changes
// something is refused when a browser sends it from another site.
func (s *Server) Handler(withProfiles bool) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(s, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", s.health)
	mux.HandleFunc("GET /readyz", s.readiness)
	mux.HandleFunc("GET /streams", func(w http.ResponseWriter, r *http.Request) { answer(w, s.Streams(), nil) })
	mux.HandleFunc("POST /streams/{collector}/resume", func(w http.ResponseWriter, r *http.Request) {
		answer(w, struct{}{}, s.Resume(r.PathValue("collector")))
	})
	mux.HandleFunc("GET /streams/{collector}/lost", s.below(func(r *http.Request, below uint64) ([]statemachine.Range, error) {
		return s.Lost(r.PathValue("collector"), below)
	}))
	mux.HandleFunc("POST /streams/{collector}/forget", s.below(func(r *http.Request, below uint64) ([]statemachine.Range, error) {
		return s.Forget(r.Context(), r.PathValue("collector"), below)
	}))
	if withProfiles {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return http.NewCrossOriginProtection().Handler(mux)
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if err := s.Err(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	for _, st := range s.Streams() {
		if st.Halted {
			http.Error(w, st.Collector+": "+st.Waiting, http.StatusServiceUnavailable)
			return
		}
	}
	w.Write([]byte("ok\n"))
}

func (s *Server) readiness(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	ready := s.ready
	s.mu.Unlock()
	if !ready {
		http.Error(w, "connections are not accepted", http.StatusServiceUnavailable)
		return
	}
	w.Write([]byte("ok\n"))
}

func (s *Server) below(do func(*http.Request, uint64) ([]statemachine.Range, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		below, err := strconv.ParseUint(r.URL.Query().Get("below"), 10, 64)
		if err != nil {
			http.Error(w, "below is "+strconv.Quote(r.URL.Query().Get("below"))+", allowed is a batch number", http.StatusBadRequest)
			return
		}
		lost, err := do(r, below)
		answer(w, pairs(lost), err)
	}
}

func answer(w http.ResponseWriter, value any, err error) {
	switch {
	case errors.Is(err, ErrUnknownCollector):
		http.Error(w, err.Error(), http.StatusNotFound)
	case errors.Is(err, ErrOutOfRange):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(value)
	}
}
