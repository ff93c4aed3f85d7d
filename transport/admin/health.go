package admin

import (
	"context"
	"encoding/json"
	"net/http"
)

// Check is one condition of readiness.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Warning makes a check that fails something to know about, not a reason to be taken out of service.
	Warning bool   `json:"warning,omitempty"`
	Detail  string `json:"detail,omitempty"` // why it fails, or what it waits for
}

// Readiness is the body of /readyz.
type Readiness struct {
	APIVersion string  `json:"apiVersion"`
	Ready      bool    `json:"ready"`
	Checks     []Check `json:"checks"`
}

// livez answers as long as the process can: it depends on no peer, disk or lock, so that an orchestrator never kills a
// node for the trouble of another.
func (s *Server) livez(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, struct {
		APIVersion string `json:"apiVersion"`
		Live       bool   `json:"live"`
	}{"v1", true})
}

func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
	defer cancel()
	body := Readiness{APIVersion: "v1", Ready: true, Checks: s.opt.Ready(ctx)}
	if body.Checks == nil {
		body.Checks = []Check{}
	}
	for _, c := range body.Checks {
		if !c.OK && !c.Warning {
			body.Ready = false
		}
	}
	status := http.StatusOK
	if !body.Ready {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, body)
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client is gone: nobody left to tell
}
