# For a node group named "gpu-node-1":
GPU_NODE_1_NAME=gpu-worker-1
GPU_NODE_1_GPU_COUNT=4
GPU_NODE_1_SCALE_UP_ENDPOINT=http://power-api/gpu-worker-1/start
GPU_NODE_1_SCALE_DOWN_ENDPOINT=http://power-api/gpu-worker-1/stop

# For additional nodes, use different prefixes:
GPU_NODE_2_NAME=gpu-worker-2
GPU_NODE_2_GPU_COUNT=8
GPU_NODE_2_SCALE_UP_ENDPOINT=http://power-api/gpu-worker-2/start
GPU_NODE_2_SCALE_DOWN_ENDPOINT=http://power-api/gpu-worker-2/stop
