package server

import (
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark/tidemark/protocol"
)

// counters are what happened; what is now comes from Streams at each scrape. Labels take their values
// from the configuration and the protocol, never from what a peer sent.
type counters struct {
	replies            *prometheus.CounterVec
	reply              map[protocol.Code]prometheus.Counter // of replies, without a search for each
	refused            *prometheus.CounterVec
	nacks              *prometheus.CounterVec
	sinkFailures       *prometheus.CounterVec
	checkpointFailures *prometheus.CounterVec
	lost               *prometheus.CounterVec
	checkpoints        prometheus.Histogram

	mu        sync.Mutex
	grumbling map[string]*grumbling
}

// grumbling is one kind of log line about peers.
type grumbling struct {
	last       time.Time
	suppressed int
}

func newCounters() *counters {
	count := func(name, help string, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "tidemark", Name: name, Help: help}, []string{label})
	}
	c := &counters{
		reply:              map[protocol.Code]prometheus.Counter{},
		replies:            count("replies_total", "Replies to collectors, by code.", "code"),
		refused:            count("connections_refused_total", "Connections the ingress ended, by reason.", "reason"),
		nacks:              count("nacks_total", "Batches refused for good in dialect 2, by reason.", "reason"),
		sinkFailures:       count("sink_failures_total", "Deliveries the sink did not take whole, by kind.", "kind"),
		checkpointFailures: count("checkpoint_failures_total", "Tries of a checkpoint that failed, by part.", "part"),
		lost:               count("lost_batches_total", "Numbers given up, by collector.", "collector"),
		checkpoints: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "tidemark", Name: "checkpoint_seconds",
			Help: "Duration of checkpoints, from the barrier to completion.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16)}),
		grumbling: map[string]*grumbling{},
	}
	for dialect := 1; dialect <= 2; dialect++ {
		for m := range protocol.Messages(dialect) {
			if m.Code != 0 {
				c.reply[m.Code] = c.replies.WithLabelValues(m.Code.String())
			}
		}
	}
	return c
}

// label is a code as the value of a label.
func label(code protocol.Code) string {
	return strings.ReplaceAll(strings.ToLower(code.String()), "_", "-")
}

// grumble logs a warning about what a collector or an unknown peer (who is empty) did, each kind once a
// second for each at the most.
func (c *counters) grumble(log *slog.Logger, who, message string, args ...any) {
	suppressed, silent := c.silence(who+"\n"+message, time.Now())
	if silent {
		return
	}
	if who != "" {
		args = append(args, "collector", who)
	}
	if suppressed > 0 {
		args = append(args, "suppressed", suppressed)
	}
	log.Warn(message, args...)
}

// silence tells whether a kind of line was just logged, or else how many were left out since.
func (c *counters) silence(kind string, now time.Time) (suppressed int, silent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.grumbling[kind]
	if g == nil {
		g = new(grumbling)
		c.grumbling[kind] = g
	}
	if now.Sub(g.last) < time.Second {
		g.suppressed++
		return 0, true
	}
	suppressed = g.suppressed
	g.last, g.suppressed = now, 0
	return suppressed, false
}

// gauges describe each stream as it is when asked.
var gauges = []struct {
	desc  *prometheus.Desc
	value func(Status) float64
}{
	{gauge("stream_committed", "Watermark of the last completed checkpoint."), func(s Status) float64 { return float64(s.Committed) }},
	{gauge("stream_watermark", "Watermark of what the sink took."), func(s Status) float64 { return float64(s.Watermark) }},
	{gauge("stream_received", "Highest batch accepted."), func(s Status) float64 { return float64(s.Received) }},
	{gauge("stream_lag_batches", "Numbers received and not committed."), func(s Status) float64 { return float64(s.LagBatches) }},
	{gauge("stream_lag_seconds", "Time since the watermark moved, while batches wait."), func(s Status) float64 { return s.LagSeconds }},
	{gauge("stream_queue", "Batches waiting for the sink."), func(s Status) float64 { return float64(s.Queue) }},
	{gauge("stream_held", "Batches that no completed checkpoint covers."), func(s Status) float64 { return float64(s.Held) }},
	{gauge("stream_held_bytes", "Payload bytes of these."), func(s Status) float64 { return float64(s.HeldBytes) }},
	{gauge("stream_missing", "Ranges of numbers the collector must send."), func(s Status) float64 { return float64(len(s.Missing)) }},
	{gauge("stream_nacks", "Deliveries failed in a row."), func(s Status) float64 { return float64(s.Nacks) }},
	{gauge("stream_halted", "1 when the stream gave up on its sink."), func(s Status) float64 { return one(s.Halted) }},
	{gauge("stream_connected", "1 when a connection has the seat."), func(s Status) float64 { return one(s.Connected) }},
}

var (
	streamsDesc     = prometheus.NewDesc("tidemark_streams", "Streams known.", nil, nil)
	connectionsDesc = prometheus.NewDesc("tidemark_connections", "Connections open.", nil, nil)
	memoryDesc      = prometheus.NewDesc("tidemark_held_bytes", "Payload bytes held by all streams.", nil, nil)
)

func gauge(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("tidemark_"+name, help, []string{"collector"}, nil)
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Describe implements prometheus.Collector.
func (s *Server) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(s, ch) }

// Collect implements prometheus.Collector: register the server with a registry, or use Handler.
func (s *Server) Collect(ch chan<- prometheus.Metric) {
	c := s.counters
	for _, v := range []prometheus.Collector{c.replies, c.refused, c.nacks, c.sinkFailures, c.checkpointFailures, c.lost, c.checkpoints} {
		v.Collect(ch)
	}
	streams := s.Streams()
	for _, st := range streams {
		for _, g := range gauges {
			ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.value(st), st.Collector)
		}
	}
	s.mu.Lock()
	connections := len(s.connections)
	s.mu.Unlock()
	ch <- prometheus.MustNewConstMetric(streamsDesc, prometheus.GaugeValue, float64(len(streams)))
	ch <- prometheus.MustNewConstMetric(connectionsDesc, prometheus.GaugeValue, float64(connections))
	ch <- prometheus.MustNewConstMetric(memoryDesc, prometheus.GaugeValue, float64(s.memory.Load()))
}
