package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestServerThatEnds sees that a server's death ends the measurement with what it said.
func TestServerThatEnds(t *testing.T) {
	_, err := launchSelf(t.Context(), "nothing")
	require.ErrorContains(t, err, `no server "nothing"`)
	s := settings(t)
	l := newLoad(s, 0)
	err = withLoad(t.Context(), s, &barePeer{settings: s}, l, func(ctx context.Context, server Server, _ *Load) error {
		server.Process().Kill()
		<-ctx.Done()
		return errors.New("the count")
	})
	require.ErrorContains(t, err, "collector ")
}

// TestServersDieWithTheirStarter kills a process that has started a server.
func TestServersDieWithTheirStarter(t *testing.T) {
	starter, err := launchSelf(t.Context(), "starter", filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	defer starter.Kill()
	conn, err := net.Dial("tcp", starter.Address)
	require.NoError(t, err)
	defer conn.Close()
	starter.Kill()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
}

// startAnother is a process that starts a server, says where that listens, and waits to be killed.
func startAnother(path string) error {
	server, err := launchSelf(context.Background(), "bare", path)
	if err != nil {
		return err
	}
	fmt.Println("listening", server.Address)
	<-server.ended
	return errors.New("the server ended")
}
