// A discovery handler: every file in a folder is a device.
//
// The agent calls Discover with the discoveryDetails of a device configuration, here the path of a folder. The answer
// is a stream of complete lists: a new one is sent whenever the devices have changed.
package main

import (
	"context"
	"log"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"example.com/discovery-handler/discovery"
)

const name = "files-go"

// discover serves one device configuration until the agent ends the call.
func discover(_ any, stream grpc.ServerStream) error {
	request := new(discovery.DiscoverRequest)
	if err := stream.RecvMsg(request); err != nil {
		return err
	}
	var sent map[string]bool
	for stream.Context().Err() == nil {
		found, err := files(request.DiscoveryDetails)
		if err != nil {
			return status.Error(codes.InvalidArgument, err.Error())
		}
		if sent == nil || !maps.Equal(found, sent) {
			if err := stream.SendMsg(devices(request.DiscoveryDetails, found)); err != nil {
				return err
			}
			sent = found
		}
		time.Sleep(200 * time.Millisecond)
	}
	return nil
}

func files(folder string) (map[string]bool, error) {
	entries, err := os.ReadDir(folder)
	found := map[string]bool{}
	for _, entry := range entries {
		found[entry.Name()] = true
	}
	return found, err
}

// devices returns the complete list. A workload gets the properties as environment variables, and the mounts.
func devices(folder string, found map[string]bool) *discovery.DiscoverResponse {
	response := new(discovery.DiscoverResponse)
	for _, file := range slices.Sorted(maps.Keys(found)) {
		path := filepath.Join(folder, file)
		response.Devices = append(response.Devices, &discovery.Device{
			Id:         file,
			Properties: map[string]string{"FILE_NAME": file},
			Mounts:     []*discovery.Mount{{ContainerPath: "/devices/" + file, HostPath: path, ReadOnly: true}},
		})
	}
	return response
}

// register announces the endpoint to the agent; the agent then calls it.
func register(folder, endpoint string) error {
	connection, err := grpc.NewClient(
		"unix:"+filepath.Join(folder, "agent-registration.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
	)
	if err != nil {
		return err
	}
	defer connection.Close()
	request := &discovery.RegisterDiscoveryHandlerRequest{
		Name:         name,
		Endpoint:     endpoint,
		EndpointType: discovery.RegisterDiscoveryHandlerRequest_UDS,
		Shared:       false, // each node has its own files
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	method := "/v0.Registration/RegisterDiscoveryHandler"
	return connection.Invoke(ctx, method, request, new(discovery.Empty), grpc.WaitForReady(true))
}

func main() {
	folder := os.Getenv("DISCOVERY_HANDLERS_DIRECTORY")
	if folder == "" {
		folder = "/var/lib/akri"
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		log.Fatal(err)
	}
	endpoint := filepath.Join(folder, name+".sock")
	_ = os.Remove(endpoint)
	listener, err := net.Listen("unix", endpoint)
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "v0.DiscoveryHandler",
		Streams:     []grpc.StreamDesc{{StreamName: "Discover", Handler: discover, ServerStreams: true}},
	}, nil)
	go func() {
		if err := register(folder, endpoint); err != nil {
			log.Fatal(err)
		}
	}()
	log.Fatal(server.Serve(listener))
}
