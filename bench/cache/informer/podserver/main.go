// Podserver serves pre-rendered pods the way an API server does: paged list, watch, streaming list, in JSON and in
// protobuf. It is the same opponent for both clients, and spends as little of their machine as it can.
package main

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

type server struct {
	json, protobuf *rendering
	pods           int

	mutex     sync.Mutex
	published int           // changes that watchers may see
	more      chan struct{} // closed when `published` grows
}

func main() {
	pods := flag.Int("pods", 10_000, "pods to serve")
	changes := flag.Int("changes", 20_000, "changes to hold ready")
	unique := flag.Bool("unique", false, "no two pods share a sub-document")
	flag.Parse()

	served := &server{pods: *pods, more: make(chan struct{})}
	served.json, served.protobuf = render(*pods, *changes, *unique, func(line string) { fmt.Fprintln(os.Stderr, line) })

	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	bytes := 0
	for _, object := range served.json.objects {
		bytes += len(object)
	}
	fmt.Printf("{\"url\":\"http://%s\",\"mean_bytes\":%d}\n", listener.Addr(), bytes / *pods)
	go func() { // exit when the parent process is gone
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/pods", served.get)
	mux.HandleFunc("POST /bench/publish", served.publish)
	mux.HandleFunc("POST /bench/rewind", served.rewind)
	panic(http.Serve(listener, mux))
}

func (s *server) get(answer http.ResponseWriter, request *http.Request) {
	rendered := s.json
	if strings.Contains(request.Header.Get("Accept"), "protobuf") {
		rendered = s.protobuf
	}
	if query := request.URL.Query(); query.Get("watch") == "true" || query.Get("watch") == "1" {
		s.watch(answer, request, rendered)
	} else {
		s.list(answer, request, rendered)
	}
}

// list sends the pods as they were at first, whatever has been published: every client starts from the same list.
func (s *server) list(answer http.ResponseWriter, request *http.Request, rendered *rendering) {
	query := request.URL.Query()
	limit, _ := strconv.Atoi(query.Get("limit"))
	start, _ := strconv.Atoi(query.Get("continue"))
	end, following := len(rendered.objects), ""
	if limit > 0 && start+limit < end {
		end = start + limit
		following = strconv.Itoa(end)
	}
	answer.Header().Set("Content-Type", rendered.listType)
	answer.Write(rendered.list(rendered.objects[start:end], s.listed(), following))
}

func (s *server) watch(answer http.ResponseWriter, request *http.Request, rendered *rendering) {
	query := request.URL.Query()
	answer.Header().Set("Content-Type", rendered.watchType)
	answer.WriteHeader(http.StatusOK)
	flush := answer.(http.Flusher).Flush
	flush()
	next := 0
	if query.Get("sendInitialEvents") == "true" {
		for _, event := range rendered.added {
			if _, err := answer.Write(event); err != nil {
				return
			}
		}
		answer.Write(rendered.event("BOOKMARK", rendered.bookmark(s.listed(), true)))
		flush()
	} else if version, err := strconv.Atoi(query.Get("resourceVersion")); err == nil {
		next = max(0, version-firstVersion-s.pods+1)
	}
	lasts, err := strconv.Atoi(query.Get("timeoutSeconds"))
	if err != nil {
		lasts = 3600
	}
	ended := time.After(time.Duration(lasts) * time.Second)
	for {
		published, more := s.reached()
		for ; next < published; next++ {
			if _, err := answer.Write(rendered.changed[next]); err != nil {
				return
			}
		}
		flush()
		select {
		case <-more:
		case <-ended:
			answer.Write(rendered.event("BOOKMARK", rendered.bookmark(s.version(next), false)))
			return
		case <-request.Context().Done():
			return
		}
	}
}

// publish lets watchers see `events` more changes: at once, or `rate` of them a second.
func (s *server) publish(answer http.ResponseWriter, request *http.Request) {
	events, _ := strconv.Atoi(request.URL.Query().Get("events"))
	rate, _ := strconv.Atoi(request.URL.Query().Get("rate"))
	if rate == 0 {
		s.grow(events)
		return
	}
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for range events {
		<-tick.C
		s.grow(1)
	}
}

// rewind starts over for the next client.
func (s *server) rewind(http.ResponseWriter, *http.Request) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.published = 0
}

func (s *server) grow(events int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.published = min(s.published+events, len(s.json.changed))
	close(s.more)
	s.more = make(chan struct{})
}

func (s *server) reached() (int, <-chan struct{}) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.published, s.more
}

func (s *server) listed() string { return strconv.Itoa(firstVersion + s.pods - 1) }

func (s *server) version(next int) string { return strconv.Itoa(firstVersion + s.pods - 1 + next) }
