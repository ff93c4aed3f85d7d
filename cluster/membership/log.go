package membership

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"os"
	"strings"
)

// gossipLog turns memberlist's lines ("[WARN] memberlist: …") into slog's. What memberlist has at ERR is a peer's or the
// network's doing; it is passed on as a warning.
type gossipLog struct{ log *slog.Logger }

var gossipLevels = []struct {
	prefix string
	level  slog.Level
}{
	{"[TRACE] ", slog.LevelDebug - 4}, {"[DEBUG] ", slog.LevelDebug}, {"[INFO] ", slog.LevelInfo},
	{"[WARN] ", slog.LevelInfo}, {"[ERR] ", slog.LevelWarn}, {"[ERROR] ", slog.LevelWarn},
}

func (g gossipLog) Write(b []byte) (int, error) {
	line, level := string(bytes.TrimSpace(b)), slog.LevelInfo
	for _, l := range gossipLevels {
		if rest, ok := strings.CutPrefix(line, l.prefix); ok {
			line, level = rest, l.level
			break
		}
	}
	line = strings.TrimPrefix(line, "memberlist: ")
	g.log.Log(context.Background(), level, "gossip: "+line)
	return len(b), nil
}

// ReadSecret reads a gossip key file: base64 of 16, 24 or 32 bytes. An empty name is no secret.
func ReadSecret(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("gossip.secret_file: %w", err)
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(b)))
	if err != nil {
		return nil, fmt.Errorf("gossip.secret_file: %s is not base64: %w", file, err)
	}
	switch len(key) {
	case 16, 24, 32:
		return key, nil
	}
	return nil, fmt.Errorf("gossip.secret_file: %s holds %d bytes, not 16, 24 or 32", file, len(key))
}
