docker run -d \
  -e GPU_NODE_1_NAME=gpu-worker-1 \
  -e GPU_NODE_1_GPU_COUNT=4 \
  -e GPU_NODE_1_SCALE_UP_ENDPOINT=http://power-api/start \
  -e GPU_NODE_1_SCALE_DOWN_ENDPOINT=http://power-api/stop \
  ghcr.io/dseif0x/k8s-gpu-autoprovision:latest
